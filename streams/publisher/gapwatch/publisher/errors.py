"""Errors that the publisher raises; its own, because it is installed without the rest of Gapwatch."""

from __future__ import annotations


class SettingsError(Exception):
    """Raised for settings that are incomplete, contradict each other, or name a file that cannot be read."""
