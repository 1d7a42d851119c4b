"""Compiles the claims of a portfolio to types of records and to Python functions over them."""
