"""Tests of the pure part of judging."""
