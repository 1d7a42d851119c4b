"""Spans that a program emits already, and those that it can be made to emit."""
