"""Free ports for processes that are told their address before they start."""

from __future__ import annotations

import socket


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
