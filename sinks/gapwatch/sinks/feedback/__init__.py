"""Feedback of people about traces: stored, joined to the trace, and counted as a series."""
