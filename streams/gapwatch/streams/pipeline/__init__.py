"""Scores slices and writes them to the store; start reading at `pipeline.py`."""
