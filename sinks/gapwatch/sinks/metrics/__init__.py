"""Metrics of `/metrics`: families, labels and live values."""
