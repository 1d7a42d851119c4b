"""Delivery: the one-line message of an alert, and the webhook that posts it."""
