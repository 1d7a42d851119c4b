"""Folds of several buckets at once, with the same state as one after the other."""
