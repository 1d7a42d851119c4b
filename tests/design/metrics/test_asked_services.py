"""Errors of a function are those of a service where its own call raises into it, and nothing else does."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.analysis import no_progress
from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.metrics.outside.asked_services import why_no_service_error
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import read_code
from tests.design.source_tree import write_tree

_HEAD = """
import os
import boto3
import httpx
import openai

KEY = os.getenv("INDEX_KEY")
store = boto3.client("s3")

def checked(reply):
    if reply.status_code != 200:
        raise RuntimeError(reply.text)
    return reply

def fetch_url(url):
    return httpx.get(url).raise_for_status().text

"""
_GET = "httpx.get('https://orders.example')"
_CASES = {
    "checked in place": ("", f"{_GET}.raise_for_status()", "", None),
    "checked by another function": ("", f"found = {_GET}", "return checked(found)", None),
    "raised by a test": ("", f"found = {_GET}", "if not found.ok:\n        raise RuntimeError(1)", None),
    "a client that raises": ("", "store.list_buckets()", "", None),
    "no status is read": ("", f"found = {_GET}", "return found.json()", "a bad status"),
    "a result for a bad status": (
        "",
        f"found = {_GET}",
        "if found.status_code != 200:\n        return []\n    return found.json()",
        "a bad status",
    ),
    "off by default": (
        "index = os.getenv('INDEX_ADDRESS')\n    if not index:\n        return None",
        f"{_GET}.raise_for_status()",
        "",
        "without a setting",
    ),
    "a key that is needed": ("if not KEY:\n        return None", f"{_GET}.raise_for_status()", "", None),
    "the request below": ("", "found = fetch_url('https://orders.example')", "return found", "the request below"),
    "a result in another form": (
        "found = store.head_bucket(Bucket='a')",
        "found.to_dict()",
        "",
        "the call works on values",
    ),
    "a model is asked, too": (
        "",
        f"found = {_GET}.raise_for_status()",
        "return openai.OpenAI().chat.completions.create(model='m', messages=[found.text])",
        "it asks a model",
    ),
    "another asks, too": (
        "",
        f"found = {_GET}.raise_for_status()",
        "return fetch_url(found.text)",
        "what it calls asks services",
    ),
}


def _why(root: Path, before: str, call: str, after: str, path: str = "orders.py") -> str | None:
    body = "".join(f"    {part}\n" for part in (before, call, after) if part)
    text = f"{_HEAD}def order_of(number):\n{body}"
    write_tree(root, {path: text})
    code = ClaimedCode(read_code(scan_repository(root), (), default_catalog(), no_progress).material)
    subject = code.subject(f"{path.removesuffix('.py').replace('/', '.')}.order_of")
    line = 1 + next(n for n, one in enumerate(text.splitlines()) if call in one and n > _HEAD.count("\n"))
    assert subject is not None
    return why_no_service_error(code, subject, CodePlace(path, line, line), is_write=False)


@pytest.mark.parametrize("name", sorted(_CASES))
def test_errors_are_those_of_the_call_where_it_raises_and_nothing_else_does(tmp_path: Path, name: str) -> None:
    before, call, after, wanted = _CASES[name]
    why = _why(tmp_path, before, call, after)

    assert why is None if wanted is None else (why or "").startswith(wanted)


def test_an_administrator_reads_the_error(tmp_path: Path) -> None:
    why = _why(tmp_path, "", f"{_GET}.raise_for_status()", "", "marketplace/orders.py")

    assert (why or "").startswith("an administrator")
