"""Exceptions of a function are errors of its service or store only where it raises none for what it is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.analysis import no_progress
from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.outside.own_exceptions import OwnExceptions
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import read_code
from tests.design.source_tree import write_tree

_APP = """
import httpx
import psycopg
from fastapi import HTTPException

rows = psycopg.connect("dbname=rows")


class OrderMissing(Exception):
    pass


class OrderServiceError(Exception):
    pass


def order_of(number):
{body}
"""
_READS = '    found = httpx.get(f"https://orders.example/{number}")\n'
_WRITES = '    rows.execute("INSERT INTO asked VALUES (%s)", [number])\n'
_GIVES = "    return found.json()\n"


@pytest.mark.parametrize(
    ("body", "is_write", "why"),
    [
        (_READS + "    found.raise_for_status()\n" + _GIVES, False, None),
        (_READS + "    if found.status_code != 200:\n        raise OrderMissing(number)\n" + _GIVES, False, None),
        (_READS + "    if not found.json():\n        raise OrderServiceError(number)\n" + _GIVES, False, None),
        (
            _READS + "    if not found.json():\n        raise OrderMissing(number)\n" + _GIVES,
            False,
            "it raises OrderMissing",
        ),
        (_READS + "    if not number:\n        raise KeyError(number)\n" + _GIVES, False, "it raises KeyError"),
        (
            _READS + "    if not found.json():\n        raise HTTPException(404)\n" + _GIVES,
            False,
            "its exceptions refuse",
        ),
        (_WRITES + "    return number\n", True, None),
        (_READS + _WRITES + _GIVES, True, "what else it asks may fail, too"),
    ],
    ids=[
        "the service's",
        "after its status",
        "own, of the service",
        "own, of what is missing",
        "a key",
        "a refusal",
        "the store's",
        "a service before a write",
    ],
)
def test_errors_of_services_and_stores_are_theirs_alone(
    body: str, is_write: bool, why: str | None, tmp_path: Path
) -> None:
    write_tree(tmp_path, {"app.py": _APP.format(body=body)})
    code = ClaimedCode(read_code(scan_repository(tmp_path), (), default_catalog(), no_progress).material)
    subject = code.subject("app.order_of")

    assert subject is not None
    said = OwnExceptions(code).why_not(subject, is_write)
    assert said is None if why is None else (said or "").startswith(why)
