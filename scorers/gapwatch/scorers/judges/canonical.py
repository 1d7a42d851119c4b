"""Canonical JSON (RFC 8785) of what is hashed for every judgement, fast where it is plain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson
import rfc8785


def canonical_texts(texts: Mapping[str, str | None]) -> bytes:
    """Return the canonical form of an object of texts.

    The fast writer escapes as RFC 8785 says, and sorts ASCII keys as it says; numbers it would write otherwise.
    """
    if all(name.isascii() for name in texts):
        try:
            return orjson.dumps(dict(texts), option=orjson.OPT_SORT_KEYS)
        except TypeError:  # a lone surrogate
            pass
    return rfc8785.dumps(dict(texts))


def canonical_value(value: object) -> bytes:
    """Return the canonical form of what is the same for many calls, such as parameters and schemas.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        plain = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # what the fast writer cannot carry through
        return _canonical(value)
    if b"null" in plain and _has_float(value):  # NaN is written as null by the fast writer, and is no JSON
        return _canonical(value)
    return _remembered(plain)


@lru_cache(maxsize=1024)
def _remembered(plain: bytes) -> bytes:
    return _canonical(orjson.loads(plain))


def _canonical(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except rfc8785.CanonicalizationError as error:
        raise ValueError(f"no JSON: {error}") from error


def _has_float(value: object) -> bool:
    if isinstance(value, float):
        return True
    if isinstance(value, Mapping):
        return any(_has_float(member) for member in value.values())
    return isinstance(value, list | tuple) and any(_has_float(member) for member in value)
