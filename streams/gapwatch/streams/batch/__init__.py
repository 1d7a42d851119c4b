"""Finite jobs: replay of files, backfill of a topic, check of portfolios against traces, publishing of files."""
