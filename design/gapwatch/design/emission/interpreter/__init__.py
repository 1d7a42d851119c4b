"""Emits spans from events of the interpreter; runs in the watched program, and imports nothing but OpenTelemetry."""
