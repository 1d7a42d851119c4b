"""Evaluation: runs the detectors of a lane, saves and restores their state, and shows it as gauges."""
