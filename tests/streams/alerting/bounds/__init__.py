"""Bounds of the portfolio."""
