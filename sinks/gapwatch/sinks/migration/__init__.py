"""Converts stores of older schema versions."""
