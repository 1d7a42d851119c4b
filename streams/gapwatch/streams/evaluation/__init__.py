"""Offline evaluation: data sets, metrics, runs of a function over examples, and their reports."""
