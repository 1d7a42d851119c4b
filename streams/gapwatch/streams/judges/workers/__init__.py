"""Runs judges over a finished store, beside a live run, or as a process of their own."""
