"""One DuckDB file: schema, transaction, ledger, retention, outbox, topics."""
