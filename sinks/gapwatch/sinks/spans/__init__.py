"""Ledger of spans that came over OTLP, as the store has it."""
