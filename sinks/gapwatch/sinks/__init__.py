"""Stores results in DuckDB, serves `/metrics` and an HTTP API, and reads the store for commands and reports."""
