"""Reads a portfolio file into checked types, and names every problem with its place."""
