"""Reads source files: scan, syntax trees, intermediate form, numbered program."""
