"""Detectors of change: pure functions of tick counts, with a false-alarm promise that survives continuous looking."""
