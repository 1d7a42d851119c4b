"""Exported history: Delta tables that several stores write and commands read."""
