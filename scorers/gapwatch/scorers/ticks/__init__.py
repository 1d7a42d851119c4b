"""Counts of a slice by tick and unit."""
