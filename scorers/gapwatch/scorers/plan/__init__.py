"""Compiles the claims of a portfolio to one DuckDB query."""
