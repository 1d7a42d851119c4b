"""Margins of the evidence: changes that are not worth telling, and levels that days take by themselves."""
