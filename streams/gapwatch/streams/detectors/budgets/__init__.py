"""Thresholds from a false-alarm budget, and the volume that they follow."""
