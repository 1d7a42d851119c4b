"""Designs a portfolio from a pipeline's source code."""
