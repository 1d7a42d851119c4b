"""What a model is sent is cut where it does not fit; pieces of a splitter, refusals and other limits are no cuts."""

# ruff: noqa: E501 - one case a line reads as a table

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from tests.design.patterns.test_pattern_search import patterns
from tests.design.source_tree import write_tree

#: Name: source, line of the cut.
CUTS: dict[str, tuple[str, int]] = {
    "messages are popped": (
        "def f(messages, max_tokens):\n    while count_tokens(messages) > max_tokens:\n        messages.pop(0)\n",
        3,
    ),
    "documents are left out": (
        "def f(docs, budget):\n    out, used = [], 0\n    for doc in docs:\n        if used + num_tokens(doc) > budget:\n"
        "            break\n        out.append(doc)\n    return out\n",
        5,
    ),
    "the last one does not fit": (
        "def f(docs, tk, max_context_tokens):\n    kept = []\n    for d in docs:\n        kept.append(d)\n"
        "        if tk.token_count(kept) > max_context_tokens:\n            kept.pop()\n    return kept\n",
        6,
    ),
    "others come in as long as they fit": (
        "def f(docs, most):\n    text, tokens = '', 0\n    for d in docs:\n        if tokens + d.tokens < most:\n"
        "            text += d.text\n        else:\n            break\n    return text\n",
        7,
    ),
    "rows by a helper": (
        "def f(data, enc, context_window_size):\n    n = len(enc.encode(str(data)))\n    while n > context_window_size:\n"
        "        data = reduce_rows(data)\n        n = len(enc.encode(str(data)))\n    return data\n",
        4,
    ),
    "after the model refused it": (
        "def f(model, findings):\n    while True:\n        try:\n            return model(findings)\n"
        "        except Exception as e:\n            if is_token_limit_exceeded(e):\n"
        "                findings = findings[:4000]\n                continue\n            raise\n",
        7,
    ),
    "chunks that are chosen": (
        "def select_chunks(chunks, budget):\n    out, used = [], 0\n    for c in chunks:\n"
        "        if used + num_tokens(c) > budget:\n            skipped = True\n            continue\n        out.append(c)\n",
        6,
    ),
    "a budget that a range counts": (
        "def f(docs, budget):\n    used = 0\n    for i in range(0, len(docs), 1):\n        used_tokens += len(docs[i])\n"
        "        if used_tokens > budget:\n            break\n",
        6,
    ),
    "the beginning, and a word of it": (
        "def f(rows):\n    text = rows.to_csv()\n    if len(text) > 1000:\n        text = text[:1000] + '\\n(Results truncated)'\n"
        "    return f'{text} IMPORTANT'\n",
        4,
    ),
    "the first of many": (
        "MAX_CHUNKS = 9\ndef f(chunks):\n    if len(chunks) > MAX_CHUNKS:\n        chunks = chunks[:MAX_CHUNKS]\n"
        "    return chunks\n",
        4,
    ),
}
NONE: dict[str, str] = {
    "what does not fit is a piece of its own": "def f(texts, max_tokens):\n    for t in texts:\n"
    "        if token_len(t) > max_tokens:\n            flush_buffer()\n            _add_chunk(t)\n            continue\n"
    "        buffer.append(t)\n",
    "what does not fit is given alone": "def f(texts, max_tokens):\n    for t in texts:\n"
    "        if num_tokens(t) > max_tokens:\n            yield [t]\n            continue\n        kept.append(t)\n",
    "the end of the loop": "def f(ids, total_tokens, size, step):\n    for start in range(0, total_tokens, step):\n"
    "        end = min(start + size, total_tokens)\n        embed(ids[start:end])\n        if end >= total_tokens:\n"
    "            break\n",
    "the end of the loop, after what goes on": "def f(ids, step):\n    for start in range(0, len(tokens), step):\n"
    "        if start + step < len(tokens):\n            embed(tokens, start)\n        else:\n            break\n",
    "a function that splits": "def split_by_tokens(docs, max_tokens):\n    for d in docs:\n"
    "        if num_tokens(d) > max_tokens:\n            break\n",
    "pieces of a splitter": "def f(words, chunk_size):\n    out, now = [], []\n    for w in words:\n"
    "        if num_tokens(now) > chunk_size:\n            out.append(now)\n            now = now[-2:]\n",
    "batches": "def f(texts, max_tokens_per_batch):\n    for t in texts:\n"
    "        if num_tokens(t) > max_tokens_per_batch:\n            break\n",
    "what does not fit goes elsewhere": "def f(texts, max_tokens, groups):\n    for t in texts:\n"
    "        if num_tokens(t) > max_tokens:\n            groups.append(t)\n            continue\n",
    "a refusal": "def f(text, max_tokens):\n    if count_tokens(text) > max_tokens:\n        raise ValueError('long')\n",
    "a file that is deleted": "import os\ndef f(path, n, max_tokens):\n    if n > max_tokens:\n"
    "        os.remove(path)\n        return None\n",
    "tokens of an account": "def f(user):\n    while user.access_tokens > MAX:\n        user.sessions.pop()\n",
    "no tokens at all": "def f(steps, most):\n    while len(steps) > most:\n        steps.pop(0)\n",
    "a page of rows": "def f(rows, limit):\n    if len(rows) > limit:\n        rows = rows[:limit]\n    return rows\n",
    "a preview that says nothing of it": "def f(text):\n    if len(text) > 100:\n        text = text[:100] + '...'\n"
    "    return text\n",
    "a splitter of documents": "class PageChunker:\n    def fit(self, docs, max_tokens):\n"
    "        for d in docs:\n            if num_tokens(d) > max_tokens:\n                break\n",
    "whether there are any": "def f(tokens):\n    while tokens > 0:\n        tokens = take(tokens)\n        items.pop()\n",
}
CHAT = """
from fastapi import FastAPI
from openai import OpenAI

app = FastAPI()
client = OpenAI()


def fitting(messages, max_tokens):
    while sum(len(m) for m in messages) / 4 > max_tokens and len(messages) > 1:
        messages.pop(0)
    return messages


@app.post("/chat")
def chat(messages):
    sent = fitting(messages, 8000)
    return client.chat.completions.create(model="m", messages=sent).choices[0].message.content
"""


@pytest.mark.parametrize("name", sorted(CUTS))
def test_a_cut_is_found_at_the_line_that_leaves_something_out(name: str, tmp_path: Path) -> None:
    source, line = CUTS[name]

    hits = [h for h in patterns(tmp_path, {"m.py": source}) if h.pattern == "cuts_context"]

    assert [h.line for h in hits] == [line]


@pytest.mark.parametrize("name", sorted(NONE))
def test_what_cuts_nothing_that_a_model_is_sent_is_left_alone(name: str, tmp_path: Path) -> None:
    assert "cuts_context" not in {h.pattern for h in patterns(tmp_path, {"m.py": NONE[name]})}


def _design(root: Path, source: str) -> tuple[Design, list[MetricDesign]]:
    made = run_design(scan_repository(write_tree(root, {"app.py": source})))
    return made, [m for m in made.metrics if m.family == "context_cuts"]


def test_calls_whose_context_is_cut_are_counted_and_the_span_says_so_at_the_line(tmp_path: Path) -> None:
    made, (metric,) = _design(tmp_path, CHAT)

    assert metric.claim == {"form": "check", "field": "attributes.context_outcome", "not": {"one_of": ["cut"]}}
    assert (metric.spans, metric.better, metric.severity) == (["fitting"], "lower", "ticket")
    (span,) = [p for p in made.planned if p.span == "fitting"]
    assert span.start["context_outcome"] == "whole"
    assert [(m.line, m.action, m.field, m.value) for m in span.function.marks] == [
        (11, "set", "context_outcome", "cut")
    ]


def test_a_function_that_nothing_runs_has_no_such_metric(tmp_path: Path) -> None:
    _, found = _design(tmp_path, CHAT.replace("sent = fitting(messages, 8000)", "sent = messages"))

    assert not found
