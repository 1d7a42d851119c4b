"""`gapwatch check`: warnings, claims in words, JSON schemas."""
