"""Adapters of models: litellm, and OpenAI-compatible endpoints over HTTP."""
