"""Stores the verdicts of judges, and leases their budget."""
