"""Runs the detectors of a lane: catching up, state, gauges."""
