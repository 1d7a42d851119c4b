"""Canonical JSON (RFC 8785) of the values that are hashed for every judgement, with a fast path for plain values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
import rfc8785


def canonical_texts(texts: Mapping[str, str | None]) -> bytes:
    """Return the canonical form of an object of texts.

    orjson escapes texts and sorts ASCII keys like RFC 8785, and is fast; it writes numbers differently.
    """
    if all(name.isascii() for name in texts):
        try:
            return orjson.dumps(dict(texts), option=orjson.OPT_SORT_KEYS)
        except TypeError:  # a lone surrogate
            pass
    return rfc8785.dumps(dict(texts))


def canonical_value(value: object) -> bytes:
    """Return the canonical form of a value that many calls share, such as parameters or a schema.

    Raises:
        ValueError: The value is not JSON.
    """
    try:
        plain = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # a value that orjson cannot write
        return _canonical(value)
    if b"null" in plain and _has_float(value):  # orjson writes NaN, which is not JSON, as null
        return _canonical(value)
    return _remembered(plain)


@lru_cache(maxsize=1024)
def _remembered(plain: bytes) -> bytes:
    return _canonical(orjson.loads(plain))


def _canonical(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise ValueError(f"not JSON: {error}") from error


def _has_float(value: object) -> bool:
    if isinstance(value, float):
        return True
    if isinstance(value, Mapping):
        return any(_has_float(member) for member in value.values())
    return isinstance(value, list | tuple) and any(_has_float(member) for member in value)
