"""Tests of models, limits and the worker that judges."""
