"""Replay, backfill, check against a store, publish files."""
