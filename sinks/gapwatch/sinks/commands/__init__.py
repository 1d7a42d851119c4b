"""Subcommands on a store: gaps, rates, history, ledger, dead-letters, annotate, override, snapshot."""
