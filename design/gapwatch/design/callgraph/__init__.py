"""Builds the call graph by abstract interpretation of every scope."""
