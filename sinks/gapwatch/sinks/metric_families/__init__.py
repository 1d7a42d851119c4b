"""Metrics that the process of a run and a process that only judges share: their form, and those of judges."""
