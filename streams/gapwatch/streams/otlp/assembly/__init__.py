"""Spans to whole traces: when a trace is closed, and the ledger of spans."""
