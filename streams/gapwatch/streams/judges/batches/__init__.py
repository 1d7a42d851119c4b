"""Batch interfaces of providers: many requests in one file, half the price, answers within a day."""
