"""Batches that go on without an item have a metric of their own; attempts, and a search for the first one, are none."""

# ruff: noqa: E501 - one case a line reads as a table

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.analysis import build
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.patterns.batches import batch_handlers
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree

BATCHES = {
    "it logs": "def f(files):\n    for x in files:\n        try:\n            load(x)\n        except Exception as e:\n            log(e)\n",
    "it continues": "def f(files):\n    for x in files:\n        try:\n            text = load(x)\n        except OSError:\n            continue\n        store(text)\n",
    "it collects": "def f(files):\n    bad = []\n    for x in files:\n        try:\n            load(x)\n        except Exception:\n            bad.append(x)\n    return bad\n",
    "it raises if asked": "def f(files, strict):\n    for x in files:\n        try:\n            load(x)\n        except Exception as e:\n            if strict:\n                raise\n            log(e)\n",
    "by slices": "def f(docs):\n    for i in range(0, len(docs), 8):\n        try:\n            add(docs[i])\n        except Exception as e:\n            log(e)\n",
}
NONE = {
    "it raises": "def f(files):\n    for x in files:\n        try:\n            load(x)\n        except OSError as e:\n            raise ValueError(x) from e\n",
    "it ends": "def f(files):\n    for x in files:\n        try:\n            load(x)\n        except OSError:\n            break\n",
    "the first that works": "def f(engines):\n    for engine in engines:\n        try:\n            return engine.search()\n        except Exception as e:\n            log(e)\n",
    "the first found": "def f(engines):\n    for engine in engines:\n        try:\n            found = engine.search()\n        except Exception:\n            continue\n        if found:\n            break\n",
    "attempts": "def f(n):\n    for i in range(n):\n        try:\n            load()\n        except Exception as e:\n            log(e)\n",
    "no loop": "def f(x):\n    try:\n        load(x)\n    except Exception as e:\n        log(e)\n",
}
APP = """
import requests
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def load_pages(urls):
    pages = []
    for url in urls:
        try:
            pages.append(requests.get(url).text)
        except Exception as e:
            print(e)
    return pages


def remember(question):
    try:
        requests.post("https://memory.test", json={"q": question})
    except Exception as e:
        print(e)


@app.post("/ask")
def ask(question, urls):
    remember(question)
    asked = [{"role": "user", "content": question + "".join(load_pages(urls))}]
    return client.chat.completions.create(model="m", messages=asked).choices[0].message.content
"""
PAGES = """
import requests
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()


class Loader:
    def load_all(self, urls):
        pages = []
        for url in urls:
            try:
                self.load(url, pages)
            except Exception as e:
                print(e)
        return pages
    def load(self, url, pages):
        try:
            pages.append(requests.get(url).text)
        except OSError as e:
            print(e)


@app.post("/ask")
def ask(question, urls):
    asked = [{"role": "user", "content": question + "".join(Loader().load_all(urls))}]
    return client.chat.completions.create(model="m", messages=asked).choices[0].message.content
"""


def _handlers(root: Path, text: str) -> set[int]:
    program = build(scan_repository(write_tree(root, {"m.py": text})))[0]
    return {line for f in program.functions if f.ir.kind != "module" for line in batch_handlers(f.ir.body)}


@pytest.mark.parametrize("name", sorted(BATCHES))
def test_a_batch_goes_on_without_an_item(name: str, tmp_path: Path) -> None:
    assert _handlers(tmp_path, BATCHES[name])


@pytest.mark.parametrize("name", sorted(NONE))
def test_what_ends_or_tries_again_is_no_batch(name: str, tmp_path: Path) -> None:
    assert not _handlers(tmp_path, NONE[name])


def _of(metrics: list[MetricDesign], family: str) -> list[int]:
    return sorted(p.line for m in metrics if m.family == family for p in m.places)


def test_items_that_fail_are_counted_apart_from_other_handled_errors(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": APP})))

    assert _of(made.metrics, "failed_items") == [13]
    assert _of(made.metrics, "swallowed_errors") == [21]


def test_what_a_loop_calls_for_an_item_is_counted_with_it(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": PAGES})))

    # What takes its errors itself lets none come to the loop.
    assert _of(made.metrics, "failed_items") == [20]


def test_what_is_loaded_in_advance_is_loaded_later_if_it_fails(tmp_path: Path) -> None:
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": APP.replace("load_pages", "preload_pages")})))

    assert not _of(made.metrics, "failed_items")
