"""Checks the arguments of `TracePublisher`; an error is one sentence with the name, the value and what is expected."""

from __future__ import annotations

import difflib
import operator
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import fields
from numbers import Real
from pathlib import Path
from typing import Any

from gapwatch.publisher.errors import SettingsError
from gapwatch.publisher.kafka_settings import KafkaSettings

#: Names that Kafka accepts for a topic.
_TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
#: Most characters of a value in an error.
_VALUE_CHARACTERS = 100


def check_keywords(given: Iterable[str], own: Iterable[str]) -> None:
    """Refuse a keyword that is neither an argument nor a connection setting.

    Args:
        given: Keywords that are no arguments of the publisher.
        own: Arguments of the publisher.

    Raises:
        TypeError: A keyword is unknown; the message has the nearest name.
    """
    connection = sorted(field.name for field in fields(KafkaSettings))
    known = [*own, *connection]
    for name in given:
        if name not in connection:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(known)}"
            raise TypeError(f"TracePublisher has no argument {name!r}; {hint}")


def check_text(name: str, value: object, *, may_be_none: bool = False) -> None:
    """Refuse a value that is not a text, is empty, or cannot be written as UTF-8.

    Raises:
        SettingsError: The value is refused.
    """
    if not (may_be_none and value is None) and not (_is_text(value) and value):
        raise _error(name, value, "a text that is not empty" + (", or None" if may_be_none else ""))


def check_bool(name: str, value: object) -> None:
    """Refuse a value that is neither True nor False, such as the text of an environment variable.

    Raises:
        SettingsError: The value is refused.
    """
    if not isinstance(value, bool):
        raise _error(name, value, "True or False")


def check_redact(value: object) -> None:
    """Refuse a redaction that cannot be called.

    Raises:
        SettingsError: The value is refused.
    """
    if value is not None and not callable(value):
        raise _error("redact", value, "a function of one value, or None")


def whole_number(name: str, value: Any, least: int) -> int:
    """Return a whole number of at least `least`.

    Raises:
        SettingsError: The value is no such number.
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise _error(name, value, f"a whole number from {least}")
    return number


def probability(value: Any) -> float:
    """Return a number from 0 to 1.

    Raises:
        SettingsError: The value is no such number.
    """
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    number = float(value) if is_number and -1 < value < 2 else -1.0  # a huge int has no float
    if not 0.0 <= number <= 1.0:
        raise _error("sampling_probability", value, "a number from 0 to 1")
    return number


def file_path(value: Any) -> Path:
    """Return the path that a text, bytes or a path object names.

    Raises:
        SettingsError: The value names no file.
    """
    try:
        name = os.fsdecode(value)
    except TypeError:
        name = ""
    if not name or "\0" in name:
        raise _error("file", value, "the path of a file, or None")
    return Path(name)


def check_topic(value: str) -> None:
    """Refuse a name that no topic can have.

    Raises:
        SettingsError: The name is refused.
    """
    if not _TOPIC.fullmatch(value):
        raise _error("topic", value, "1 to 249 letters, digits, dots, hyphens and underscores")


def connection_settings(given: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the connection settings as texts; the path of a certificate may be a path object.

    Raises:
        SettingsError: A setting is not a text; the message has its type and not its value, which may be a secret.
    """
    return {name: _connection_text(name, value) for name, value in given.items()}


def _connection_text(name: str, value: Any) -> str | None:
    if name.endswith("_file") and isinstance(value, os.PathLike):
        value = os.fspath(value)
    if value is not None and not _is_text(value):
        what = "not valid Unicode" if isinstance(value, str) else f"of type {type(value).__name__}"
        raise SettingsError(f"{name} is {what}; expected a text")
    text: str | None = value
    return text


def _is_text(value: object) -> bool:
    """Return whether a value is a text that can be written as UTF-8: half a surrogate pair cannot."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def _error(name: str, value: object, expected: str) -> SettingsError:
    try:
        shown = repr(value)
    except Exception:
        shown = f"of type {type(value).__name__}"
    if len(shown) > _VALUE_CHARACTERS:
        shown = f"{shown[:_VALUE_CHARACTERS]}..."
    return SettingsError(f"{name} is {shown}; expected {expected}")
