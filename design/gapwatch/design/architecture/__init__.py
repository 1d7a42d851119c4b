"""Finds components, edges, tiers and their names, and criticises them."""
