"""Bounds of the portfolio: evidence by betting, the quantity of a window with its limits, and their check."""
