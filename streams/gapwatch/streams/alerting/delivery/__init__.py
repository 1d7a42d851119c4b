"""Sends alerts to people: message and webhook."""
