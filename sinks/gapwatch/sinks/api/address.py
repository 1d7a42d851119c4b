"""Default address of the API of a process that writes a store."""

from __future__ import annotations

DEFAULT_ADDRESS, DEFAULT_PORT = "127.0.0.1", 9464
DEFAULT_LISTEN = f"{DEFAULT_ADDRESS}:{DEFAULT_PORT}"
