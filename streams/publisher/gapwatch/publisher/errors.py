"""Errors of the publisher. It has its own, because it is installed into pipelines without the rest of Gapwatch."""

from __future__ import annotations


class SettingsError(Exception):
    """Settings that contradict each other, are incomplete, or name files that cannot be read; the text says which."""
