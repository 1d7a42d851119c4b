"""Spans of any convention to a trace envelope: one table of keys, and rules over whole traces."""
