"""Judging: models, limits, money and the worker that closes what is pending."""
