"""Finds the eleven code patterns that a portfolio rests on."""
