"""Runs judges over a store, beside a run, or as a process of their own."""
