"""Stores what judges answer, and leases their budget."""
