"""Incidents in the store: rows of their life, and queries of their current state."""
