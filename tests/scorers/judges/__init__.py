"""Tests of judging without network and store."""
