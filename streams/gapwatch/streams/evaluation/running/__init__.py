"""Calls of the evaluated function in processes of their own, and scoring of the traces."""
