"""Evaluates a program and builds its call graph."""
