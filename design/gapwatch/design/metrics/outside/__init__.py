"""Holds what exceptions of functions say of the services and stores that they ask."""
