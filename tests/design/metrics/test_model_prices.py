"""Prices of the models that the code names."""

from __future__ import annotations

from pathlib import Path

import pytest

from gapwatch.design.metrics.model_prices import named_models, prices_of
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.source_tree import write_tree


def test_models_that_literals_name_have_prices_with_or_without_their_provider(tmp_path: Path) -> None:
    source = 'A = "openai:gpt-4.1"\nB = "command"\nC = "openai/gpt-4.1-mini-2025-04-14"\nD = "no-such-model-9"\n'
    root = write_tree(tmp_path, {"app.py": source, "tests/test_app.py": 'E = "gpt-4o"\n'})

    found = [price.as_data() for price in prices_of(named_models(scan_repository(root)))]

    assert [price["models"] for price in found] == [
        ["gpt-4.1", "gpt-4.1-20*", "gpt-4.1-[01][0-9][0-3][0-9]"],
        ["gpt-4.1-mini-2025-04-14"],
    ]
    assert (found[0]["input"], found[0]["output"]) == (2.0, 8.0)
    assert found[0]["evidence"].startswith("litellm ")


def test_a_model_that_only_a_cloud_still_lists_has_the_price_of_the_cloud(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"app.py": 'MODEL = "anthropic/claude-3-5-sonnet-20240620"\n'})

    (price,) = prices_of(named_models(scan_repository(root)))

    assert (price.model, price.input_usd, price.output_usd) == ("claude-3-5-sonnet-20240620", 3.0, 15.0)


_ASK = """
from fastapi import FastAPI
{import_}

app = FastAPI()


@app.post("/ask")
def ask(question: str):
    messages = [{{"role": "user", "content": question}}]
    return {create}(model="{model}", messages=messages).choices[0].message.content
"""


@pytest.mark.parametrize(
    ("import_", "create", "model", "family"),
    [
        ("from openai import OpenAI", "OpenAI().chat.completions.create", "gpt-4.1", "model_cost"),
        ("from openai import OpenAI", "OpenAI().chat.completions.create", "our-own-model", "tokens_per_call"),
        ("import litellm", "litellm.completion", "our-own-model", "model_cost"),
    ],
)
def test_where_nothing_says_what_a_call_costs_its_tokens_are_counted(
    import_: str, create: str, model: str, family: str, tmp_path: Path
) -> None:
    source = _ASK.format(import_=import_, create=create, model=model)
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": source})))

    assert {m.family for m in made.metrics} & {"model_cost", "tokens_per_call"} == {family}


@pytest.mark.parametrize(("model", "family"), [("gpt-4.1", "model_cost"), ("our-own-model-2", "tokens_per_call")])
def test_cost_or_tokens_are_chosen_alike_with_and_without_a_list_of_prices(
    model: str, family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _ASK.format(import_="from openai import OpenAI", create="OpenAI().chat.completions.create", model=model)
    scan = scan_repository(write_tree(tmp_path, {"app.py": source}))
    families = [{m.family for m in run_design(scan).metrics}]
    monkeypatch.setattr("gapwatch.design.metrics.model_prices._price_list", lambda: ({}, ""))
    families.append({m.family for m in run_design(scan).metrics})

    assert families[0] == families[1] and families[0] & {"model_cost", "tokens_per_call"} == {family}


_OF_TWO = """
import openai
from fastapi import FastAPI

app = FastAPI()


{asks}


@app.post("/ask")
def ask(question: str):
    return {calls}
"""
_ASKS = """
def ask_{n}(question):
    messages = [{{"role": "user", "content": question}}]
    return openai.OpenAI().chat.completions.create(model="gpt-4.1", messages=messages).choices[0].message.content
"""
_STREAMS = """
def streamed_{n}(question):
    messages = [{{"role": "user", "content": question}}]
    for chunk in openai.OpenAI().chat.completions.create(model="gpt-4.1", messages=messages, stream=True):
        print(chunk.choices[0].delta.content)
"""


@pytest.mark.parametrize(("told", "untold", "has_cost"), [(3, 1, True), (1, 2, False)])
def test_cost_leaves_out_what_nobody_tells_where_most_calls_tell_it(
    told: int, untold: int, has_cost: bool, tmp_path: Path
) -> None:
    asks = [_ASKS.format(n=n) for n in range(told)] + [_STREAMS.format(n=n) for n in range(untold)]
    names = [f"ask_{n}(question)" for n in range(told)] + [f"streamed_{n}(question)" for n in range(untold)]
    source = _OF_TWO.format(asks="\n\n".join(asks), calls=", ".join(names))
    made = run_design(scan_repository(write_tree(tmp_path, {"app.py": source})))

    costs = [m for m in made.metrics if m.family == "model_cost"]
    assert bool(costs) == has_cost
    assert all(f"{untold} of {told + untold} does not" in m.valid_when for m in costs)
