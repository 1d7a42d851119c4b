"""Finds the code patterns that a portfolio rests on."""
