"""Proposes and reviews metrics, judges, questions and spans."""
