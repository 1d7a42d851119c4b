"""Triage: lists and explains alerts, and records decisions on alerts and answers to questions."""
