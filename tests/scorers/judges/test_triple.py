"""Stability triple: equal if nothing changed, different after any change, absent where it is unknown."""

from __future__ import annotations

import hashlib

import pytest

from gapwatch.scorers.judges.triple import StabilityTriple, model_id, sampling_params_sha


@pytest.mark.parametrize(
    ("asked", "answered", "expected"),
    [
        ("openai/gpt-4o", "gpt-4o-2024-11-20", "openai/gpt-4o@2024-11-20"),
        ("openai/gpt-3.5-turbo-16k", "gpt-3.5-turbo-16k-0613", "openai/gpt-3.5-turbo-16k@0613"),
        ("anthropic/claude-3-5-haiku", "claude-3-5-haiku-20241022", "anthropic/claude-3-5-haiku@20241022"),
        ("gemini/gemini-2.0-flash", "gemini-2.0-flash-001", "gemini/gemini-2.0-flash@001"),
        ("cohere/command-r", "command-r-08-2024", "cohere/command-r@08-2024"),
        ("groq/llama", "meta-llama/llama-4-scout", "groq/meta-llama/llama-4-scout@unreported"),
        ("groq/llama", "groq/llama-3.1-8b", "groq/llama-3.1-8b@unreported"),
        ("ollama/llama3.3", "llama3.3:70b", "ollama/llama3.3:70b@unreported"),
        ("bedrock/c", "anthropic.claude-3-5-sonnet-20241022-v2:0", "bedrock/anthropic.claude-3-5-sonnet@20241022-v2:0"),
        ("local", "phi-4", "phi-4@unreported"),
    ],
)  # fmt: skip
def test_a_model_is_named_as_the_provider_answered_it(asked: str, answered: str, expected: str) -> None:
    assert model_id(asked, answered) == expected


@pytest.mark.parametrize("answered", [None, "", "  "])
def test_a_provider_that_names_no_model_leaves_none(answered: str | None) -> None:
    assert model_id("openai/gpt-4o", answered) is None


def test_an_unreported_version_is_flagged() -> None:
    assert StabilityTriple("openai/gpt-4o@unreported", "a", "b").is_unreported
    assert not StabilityTriple("openai/gpt-4o@2024-11-20", "a", "b").is_unreported


def test_the_parameters_hash_is_that_of_the_canonical_json() -> None:
    written = b'{"seed":7,"temperature":0.2,"topK":null,"topP":1}'

    assert sampling_params_sha({"temperature": 0.2, "top_p": 1.0, "seed": 7}) == hashlib.sha256(written).hexdigest()


def test_key_order_and_spelling_do_not_change_the_hash() -> None:
    a = sampling_params_sha({"temperature": 0, "top_p": 1, "max_tokens": 100})
    b = sampling_params_sha({"max_tokens": 300, "topP": 1.0, "temperature": 0.0})

    assert a == b


@pytest.mark.parametrize(
    "changed",
    [
        {"temperature": 0.1}, {"temperature": 0, "top_p": 0.9}, {"temperature": 0, "top_k": 1},
        {"temperature": 0, "seed": 0}, {},
    ],
)  # fmt: skip
def test_a_changed_value_changes_the_hash(changed: dict[str, object]) -> None:
    assert sampling_params_sha(changed) != sampling_params_sha({"temperature": 0})


def test_a_seed_that_is_not_set_is_left_out() -> None:
    assert sampling_params_sha({"seed": None}) == sampling_params_sha({})
