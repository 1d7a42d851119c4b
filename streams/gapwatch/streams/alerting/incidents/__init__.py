"""Incidents: one open alert a series, its facts, its cause, its rows in the store."""
