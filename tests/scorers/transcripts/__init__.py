"""Tests of conversations in turns."""
