"""Prices of the models that the code names, from litellm's list: for spans that say tokens and no cost."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.reply_flow import is_reply_recorded, is_tool_run
from gapwatch.design.instrumentation.instrumentation import Instrumentation
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.rules.consequences import is_beside_the_pipeline
from gapwatch.design.patterns.hit import PatternHit
from gapwatch.design.source.ir import call_line, keywords_of
from gapwatch.design.source.scan import Scan

#: Text of a literal that may name a model, with or without its provider.
_LITERAL = re.compile(rb"""["'](?:[a-z_]{2,20}[:/])?([A-Za-z][\w.@-]{2,80})["']""")
#: Names of models have a version; words that are also models (`command`) are none here.
_VERSION = re.compile(r"\d")
_DATE = re.compile(r"-(20\d\d-?\d\d-?\d\d|[01]\d[0-3]\d)$")
#: The same for a name without one: `-2025-04-14`, and month and day in `gpt-4-0613`.
_DATED = ("-20*", "-[01][0-9][0-3][0-9]")
#: What providers put before and behind the name of a model: `us.anthropic.claude-3-5-sonnet-20240620-v1:0`.
_OF_PROVIDER = re.compile(r"^([a-z]{2,6}\.)?(anthropic|meta|mistral|cohere|amazon|deepseek|openai)\.|-v\d+(:\d+)?$")
#: Libraries whose replies say what they cost.
_SAYS_COST = re.compile(r"\b(litellm|openrouter|claude_agent_sdk|claude_code_sdk)\b")
#: Chat models that vendors sell by the token, at a public price.
_SOLD = re.compile(
    r"(chatgpt|gpt|claude|gemini|mistral-(large|medium|small)|codestral|command-[ra]|grok|sonar|nova-(micro|lite|pro))-"
    r"|o[1-9](-|$)",
    re.I,
)
#: Words of models that answer no questions.
_OTHER_MODES = re.compile(r"embed|audio|realtime|image|tts|transcribe|oss|neo|gpt-?j", re.I)
#: Clients whose streams tell tokens only where they are asked to, and methods that stream without being told to.
_OF_OPENAI = re.compile(r"^(openai|litellm|groq|portkey_ai|mistralai|ollama)\.(?!.*\.responses\.)")
_STREAMS = re.compile(r"(^|\.)(a?stream|a?stream_events|a?stream_chat|a?stream_complete|from_chain)$")
#: Streams that tell tokens: their clients ask for them.
_TELLS = re.compile(r"^(anthropic|google\.genai|agents|pydantic_ai)\.|^openai\..*\.responses\.")
#: Words of a file by which its streams tell tokens, and by which what is read from a cache is not among them.
_ASKED, _CACHED = re.compile(rb"include_usage|stream_usage"), re.compile(rb"cache_control")
#: Makers of agents that a server of graphs runs where no line of the code does.
_MAKES_AGENT = re.compile(r"\.(create|define|build|make)_(\w+_)?agent$")
_FAMILIES = frozenset({"model_cost", "tokens_per_call"})
_MODES = ("chat", "completion", "responses", "embedding")
#: Prices of one portfolio, at most.
_MOST = 40
_LIST = "model_prices_and_context_window_backup.json"


@dataclass(frozen=True, order=True)
class ModelPrice:
    """Price of a model that the code names.

    Attributes:
        model: The model, without its provider.
        input_usd: US dollars for a million input tokens.
        output_usd: US dollars for a million output tokens.
        evidence: The list that it comes from.
    """

    model: str
    input_usd: float
    output_usd: float
    evidence: str

    def as_data(self) -> dict[str, Any]:
        """Return the price as in the portfolio's part `spans`; a provider adds the date of the release to the name."""
        dated = () if _DATE.search(self.model) else _DATED
        globs = [self.model, *(f"{self.model}{end}" for end in dated)]
        return {"models": globs, "input": self.input_usd, "output": self.output_usd, "evidence": self.evidence}


def named_models(scan: Scan) -> list[str]:
    """Return the texts of literals outside tests that may name a model with its version, without its provider.

    Args:
        scan: Files of the repository.
    """
    named = {m.decode() for f in scan.files if not f.tags for m in _LITERAL.findall(f.source)}
    return sorted(name for name in named if _VERSION.search(name))


def prices_of(named: Sequence[str]) -> list[ModelPrice]:
    """Return the prices of models, in their order; none without litellm's list.

    Args:
        named: Names of models, as `named_models` gives them.
    """
    known, evidence = _price_list()
    if not known:
        return []
    of_providers: dict[str, list[dict[str, Any]]] = {}
    for name, entry in known.items():
        plain = _OF_PROVIDER.sub("", name.rpartition("/")[2])
        if plain != name:
            of_providers.setdefault(plain, []).append(entry)
    found = []
    for model in named:
        listed = known.get(model) or _of_one_price(of_providers.get(model, []))
        if listed is None or listed.get("mode") not in _MODES:
            continue
        if price := listed.get("input_cost_per_token"):
            output = listed.get("output_cost_per_token") or 0.0
            found.append(ModelPrice(model, _per_million(price), _per_million(output), evidence))
    return found[:_MOST]


def why_without_cost(metric: MetricDesign, named: Sequence[str], instrumentation: Instrumentation) -> str | None:
    """Return why nothing says what the calls of a metric of cost cost; None where something does.

    The answer is the same with and without litellm's list, which only adds the numbers.

    Args:
        metric: Any metric.
        named: Names of the models that the code names.
        instrumentation: What writes spans already, which may say it.
    """
    if metric.family != "model_cost" or instrumentation.libraries:
        return None
    if any(_SOLD.match(_OF_PROVIDER.sub("", name)) and not _OTHER_MODES.search(name) for name in named):
        return None
    if any(_SAYS_COST.search(line) for line in metric.evidence):
        return None
    return "the code names no chat model with a public price, and replies of its models say none"


#: Of so many calls of models, one may tell no tokens.
MOST_UNTOLD = 3


class ReadUsage:
    """Queries about the tokens of a pipeline's model calls.

    Args:
        code: The analysed code.
        scan: Its files.
        metrics: Metrics that passed the critic: those of durations name the model calls that requests run.
        named: Names of the models that the code names.
        instrumentation: What writes spans already, which may say what a call cost.
    """

    def __init__(
        self,
        code: ClaimedCode,
        scan: Scan,
        metrics: Sequence[MetricDesign],
        named: Sequence[str],
        instrumentation: Instrumentation,
    ) -> None:
        self._code, self._named, self._instrumentation = code, named, instrumentation
        self._texts = {f.path: f.source for f in scan.files}
        hits = [h for h in code.material.hits if (h.pattern, h.kind) == ("calls_llm", "direct") and not is_tool_run(h)]
        run = {(p.path, p.line) for m in metrics if m.family == "model_latency" for p in m.places}
        self._hits = [h for h in hits if (h.path, h.line) in run and not is_beside_the_pipeline(h.path)]
        self._untold: list[PatternHit] = []
        self._why = self._partial()

    def why_not(self, metric: MetricDesign) -> str | None:
        """Return why the tokens of a run are not those of its answers, or why nothing says their cost; else None."""
        why = self._why if metric.family in _FAMILIES else None
        if metric.family in _FAMILIES and self._untold:
            first, count = self._untold[0], len(self._untold)
            metric.valid_when = (
                f"calls tell their tokens; {count} of {len(self._hits)} does not: {first.path}:{first.line}"
            )
        return why or why_without_cost(metric, self._named, self._instrumentation)

    def _partial(self) -> str | None:
        told = [h for h in self._hits if self._is_told(h)]
        if cached := [h for h in told if h.evidence.startswith("anthropic.") and self._says(h, _CACHED)]:
            return f"what is read from the cache at {cached[0].path}:{cached[0].line} is not among the tokens"
        functions, names = {h.symbol for h in told}, {h.symbol.rpartition(".")[2] for h in told}
        # A client of another provider is a way beside those that tell.
        others = (h for h in self._hits if h not in told and h.symbol not in functions)
        self._untold = [h for h in others if h.symbol.rpartition(".")[2] not in names]
        if len(self._untold) * MOST_UNTOLD > len(self._hits):
            return f"nobody reads the tokens of the call at {self._untold[0].path}:{self._untold[0].line}"
        evidence = [f"{h.evidence}." for h in self._hits]
        tags = {s.id for s in self._code.material.graph.symbols if s.tags}
        for external in self._code.material.graph.externals:
            made = external.dotted
            is_run = any(e.startswith(f"{made}.") for e in evidence)
            if _MAKES_AGENT.search(made) and external.src not in tags and not is_run:
                return f"the run of the agent that {made} makes is not seen"
        return None

    def _is_told(self, hit: PatternHit) -> bool:
        """Return whether the reply of a call tells its tokens to the recorders."""
        if not is_reply_recorded(hit):
            return False
        if _TELLS.search(hit.evidence) or self._says(hit, _ASKED):
            return True
        if _STREAMS.search(hit.evidence):
            return False
        subject = self._code.subject(hit.symbol)
        if subject is None or not _OF_OPENAI.search(hit.evidence):
            return True
        calls = [c for c in subject.calls if hit.line <= call_line(c) <= max(hit.line, hit.end)]
        given = [(name, value) for c in calls for name, value in keywords_of(c)]
        if any(name == "stream" and value != ("k", False) for name, value in given):
            return False
        is_open = any(not name for name, _ in given)
        return not (is_open and re.search(rb"[\"']stream[\"']\s*[:\]]|\bstream\s*=\s*(?!False)", self._text(hit)))

    def _says(self, hit: PatternHit, words: re.Pattern[bytes]) -> bool:
        return words.search(self._text(hit)) is not None

    def _text(self, hit: PatternHit) -> bytes:
        return self._texts.get(hit.path, b"")


def _of_one_price(found: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the first entry of a model that is listed behind the names of its providers, if all ask one price."""
    prices = {(entry.get("input_cost_per_token"), entry.get("output_cost_per_token")) for entry in found}
    return found[0] if len(prices) == 1 else None


def _per_million(usd: float) -> float:
    return round(usd * 1e6, 6)


@functools.cache
def _price_list() -> tuple[dict[str, dict[str, Any]], str]:
    """Return litellm's price list and its name; the package is not imported, which would take seconds."""
    found = importlib.util.find_spec("litellm")
    if found is None or not found.submodule_search_locations:
        return {}, ""
    try:
        data = orjson.loads((Path(found.submodule_search_locations[0]) / _LIST).read_bytes())
        return data, f"litellm {importlib.metadata.version('litellm')}"
    except (OSError, orjson.JSONDecodeError, importlib.metadata.PackageNotFoundError):
        return {}, ""
