"""Commands that read or note: gaps, rates, history, ledger, dead-letters, annotate, override, snapshot."""
