"""Counts of a slice by series and 30-second bucket (ticks), of spans and of units."""
