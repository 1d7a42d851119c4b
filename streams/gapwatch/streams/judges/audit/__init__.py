"""Rebuilds, repeats and estimates judge calls."""
