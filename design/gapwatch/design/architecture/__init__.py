"""Finds components, edges and tiers, names and classifies them, and reviews the result."""
