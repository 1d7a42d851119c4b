"""Alerting: from ticks to alerts, within a false-alarm budget."""
