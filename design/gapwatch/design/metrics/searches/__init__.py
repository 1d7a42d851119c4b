"""Searches of a pipeline: what they find, and the chains of libraries that put them before an answer."""
