"""Rows, samples and inputs of judges contain no secret, whole or cut off; other texts stay unchanged."""

from __future__ import annotations

import json

import pytest
import zstandard

from gapwatch.scorers.scoring.redaction import REDACTED, Redactor
from tests.scorers.scored_slice import Product, record_slice

# Put together here, so that no scanner of repositories takes them for real ones.
SECRETS = {
    "OpenAI": "sk-" + "proj-" + "a1B2" * 6,
    "Anthropic": "sk-" + "ant-api03-" + "Zz09" * 8,
    "Stripe": "sk_" + "live_" + "4eC39HqLyjWD" * 2,
    "GitHub": "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a",
    "GitHub, fine-grained": "github_" + "pat_" + "11ABCDEFG0" * 3,
    "Slack": "xoxb-" + "123456789012-abcdefGHIJ",
    "AWS": "AKIA" + "IOSFODNN7EXAMPLE",
    "Google": "AIza" + "SyA-1234567890abcdefghijklmnopqrstu",
    "a web token": "eyJ" + "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_123",
    "a bearer": "Bearer " + "abcdef0123456789ABCDEF",
    "an address": "maria.lopez+test@mail.example.org",
    "a card": "4111 1111 1111 1111",
    "a card, dashed": "4111-1111-1111-1111",
    "an American Express card": "3782 822463 10005",
    "a social security number": "078-05-1120",
    "an IBAN": "DE89 3704 0044 0532 0130 00",
    "a private key": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----",
    "a private key without its end": "-----BEGIN PRIVATE KEY-----\nMIIEow",
}
HARMLESS = [
    "The order 12345678 was sent on 2026-11-21 to 10 Downing Street.",
    "task-force, risk-averse and desk-top are words",
    "call +1 202 555 0100 at 15:30",
    "4bf92f3577b34da6a3ce929d0e0e4736",
    "user_doe_496 has 3 bags",
]


@pytest.fixture(scope="module")
def redactor() -> Redactor:
    return Redactor([r"\bPNR [A-Z0-9]{6}\b"])


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_is_taken_out_wherever_it_stands(secret: str, redactor: Redactor) -> None:
    texts = [secret, f"my key is {secret}.", f'{{"key": "{secret}"}}', f"{secret}\n{secret}"]

    for text in redactor.redact(texts).to_pylist():
        assert REDACTED in text
        assert secret not in text


def test_what_the_portfolio_calls_secret_is_one(redactor: Redactor) -> None:
    assert redactor.redact(["rebooked PNR 8JX2WO today", None]).to_pylist() == [f"rebooked {REDACTED} today", None]


@pytest.mark.parametrize("text", HARMLESS)
def test_what_is_no_secret_stays(text: str, redactor: Redactor) -> None:
    assert redactor.redact([text]).to_pylist() == [text]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize("before", [0, 250, 290, 299, 1_150, 1_195])
def test_a_secret_that_is_cut_by_the_end_of_a_row_does_not_show_its_beginning(
    secret: str, before: int, redactor: Redactor
) -> None:
    text = "x " * (before // 2) + secret + " and more" * 300
    (short,) = redactor.shorten([text], 300).to_pylist()  # type: ignore[arg-type]

    assert len(short) <= 300
    assert secret[:16] not in short


def test_no_secret_leaves_by_a_row_a_sample_or_a_judge() -> None:
    secret = SECRETS["OpenAI"]
    rubric = {"criterion": "polite", "scale": ["yes", "no"], "inputs": ["input", "output"]}
    judge = {"form": "judge", "rubric": {**rubric, "pass_at": "yes"}, "judges": [{"model": "vendor/model"}]}
    portfolio = {
        "gapwatch": 1, "portfolio": "p", "version": 1, "pipeline": "p", "edges": [],
        "components": [{"id": "c", "role": "ai_core", "kind": "llm"}],
        "metrics": [
            {"name": "short", "component": "c", "claim": {"form": "check", "field": "output", "length": {"max": 3}}},
            {"name": "polite", "component": "c", "claim": judge},
        ],
    }  # fmt: skip
    span = {"span_id": "s", "component": "c", "input": f"use {secret}", "output": f"I used {secret}"}
    record = json.dumps({"trace_id": "t", "pipeline": "p", "spans": [span]}).encode()
    result = Product([portfolio]).score(record_slice([record]))

    (row,) = [row for row in result.tables["gaps"].to_pylist() if row["metric"] == "short"]
    (sample,) = result.tables["samples"].to_pylist()
    (request,) = result.tables["judge_requests"].to_pylist()
    left = [row["observed"], zstandard.ZstdDecompressor().decompress(sample["record"]).decode(), repr(request)]
    assert [REDACTED in text for text in left] == [True, True, True]
    assert [secret in text for text in left] == [False, False, False]
