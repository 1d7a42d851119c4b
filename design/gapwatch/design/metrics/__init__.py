"""Proposes and criticises metrics, judges, questions and spans."""
