"""Runs of the tests of issues against a model or a function, judged by several models."""
