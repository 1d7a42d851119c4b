"""`/metrics`: families, labels, live values."""
