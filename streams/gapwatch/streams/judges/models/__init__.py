"""Reaches models through litellm and HTTP."""
