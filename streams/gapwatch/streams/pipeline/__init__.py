"""The way of a slice from a source into the store; start at `pipeline.py`."""
