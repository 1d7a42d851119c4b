"""Requests to judges, prompts, verdicts and their reproducibility: the part of judging without network and store."""
