"""Texts and definitions in the DuckDB catalog of a store: views, and comments of tables and columns."""
