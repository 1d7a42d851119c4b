"""Reads a portfolio file into checked types and reports every problem with its line."""
