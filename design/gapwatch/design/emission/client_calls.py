"""Functions of libraries whose result is a reply of a model or of a search, read from `client_calls.toml`."""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import Any


@functools.cache
def client_calls() -> list[dict[str, Any]]:
    """Return the functions: the end of the path of their file, their qualified names and their kind."""
    text = Path(__file__).with_name("client_calls.toml").read_text(encoding="utf-8")
    clients: list[dict[str, Any]] = tomllib.loads(text)["client"]
    return clients
