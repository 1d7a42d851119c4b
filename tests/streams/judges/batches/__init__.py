"""Tests of batch interfaces of providers."""
