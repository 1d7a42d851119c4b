"""Feedback of people in a run: read from its topic and taken over the API."""
