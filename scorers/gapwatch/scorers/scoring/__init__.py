"""Scores a slice: rows, deferred composites, judge requests, Python scorers."""
