#!/usr/bin/env python3
"""Turn tau2-bench result files into trace envelopes, one JSON line a simulation.

    python deploy/airline/convert_tau2.py FILE.json.gz... > traces.jsonl

Needs the standard library only. The same input gives the same bytes. Files are written in the order given, the
simulations of a file in the order in which they started. README.md beside this file has the table of what becomes
what; the rules that are not a plain copy are:

- A message becomes a span: `agent` (a model call), `user` (the simulated customer, a model call too), `tools` (a tool
  call and its result), and `greeting`, the fixed first line, which no model wrote and which has no usage.
- The source keeps an end time a message and no start: a span starts when the message before it ended.
- A file of hard tasks (`airline_hard_o3`) is another population: it gets the environment `hard`, so that it is never
  taken for a change of the agent.
- Times have no zone in the source and are read as UTC.
- The source writes a cost of 0.0 where the price of a model was not known (its own code: "0.0 on error"). A model call
  that used tokens for 0.0 therefore has *no* cost here: unknown, not free.
- Replies that the harness rejected are counted (`attributes.rejected_replies`) where the source has the field for it,
  and absent where it has not: absent is not none.
- `attributes.ids` (a tool call) and `attributes.ids_said` (a reply) are the identifiers that the agent wrote,
  `attributes.seen_ids` those that the customer or a tool had named before. Whether the one lies in the other is left
  to the portfolio.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

Json = dict[str, Any]

# The tools that change the database; all others read. From the tool sets of the two domains at the recorded commits.
WRITING_TOOLS = frozenset(
    [
        "book_reservation",
        "cancel_reservation",
        "send_certificate",
        "update_reservation_baggages",
        "update_reservation_flights",
        "update_reservation_passengers",
        "cancel_pending_order",
        "exchange_delivered_order_items",
        "modify_pending_order_address",
        "modify_pending_order_items",
        "modify_pending_order_payment",
        "modify_user_address",
        "return_delivered_order_items",
    ]
)

# Identifiers as both domains form them: mei_brown_7075, credit_card_4920843, W7678072 (an order; its # is left off
# everywhere), 1234567890 (an item or a product), and six capitals or digits (a reservation or a flight).
_LONG_IDENTIFIER = r"\bW[0-9]{7}\b|\b[a-z]+(?:_[a-z]+)*_[0-9]{3,}\b|\b[0-9]{10}\b"
IDENTIFIER = re.compile(_LONG_IDENTIFIER + r"|\b[A-Z0-9]{6}\b")
# In prose six capitals are as likely a word (PLEASE), and six digits a number: there a code must have both.
SAID_IDENTIFIER = re.compile(_LONG_IDENTIFIER + r"|\b(?=[A-Z0-9]{0,5}[0-9])(?=[A-Z0-9]{0,5}[A-Z])[A-Z0-9]{6}\b")
# Customers spell codes as they like; what they typed counts as named if it holds a digit.
CUSTOMER_TOKEN = re.compile(r"\b\w*[0-9]\w*\b")
# How the simulated customer ends a conversation, as the guidelines of the simulator have it.
ENDING = re.compile(r"###(STOP|TRANSFER|OUT-OF-SCOPE)###")


def epoch(text: str) -> float:
    """Return seconds since the epoch of an ISO time; one without a zone is read as UTC."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def model_of(message: Json) -> str | None:
    """Return the model that the provider says has answered, or None where the source does not keep it."""
    model = (message.get("raw_data") or {}).get("model")
    return model if isinstance(model, str) else None


def finish_reason_of(message: Json) -> str | None:
    """Return why the provider says that generation ended, in the provider's own word."""
    raw = message.get("raw_data") or {}
    first_choice = (raw.get("choices") or [{}])[0]
    reason = raw.get("finish_reason") or raw.get("stop_reason") or first_choice.get("finish_reason")
    return reason if isinstance(reason, str) else None


def arguments_as_written(message: Json) -> dict[str, str]:
    """Return the argument text of each tool call of a message by the call's id.

    The text that the model wrote where the source keeps it (it may be no JSON), else the JSON of what was parsed.
    """
    raw = message.get("raw_data") or {}
    reply = raw.get("message") or (raw.get("choices") or [{}])[0].get("message") or {}
    written = {call["id"]: call["function"]["arguments"] for call in reply.get("tool_calls") or []}
    return {
        call["id"]: written.get(call["id"]) or json.dumps(call["arguments"], ensure_ascii=False)
        for call in message.get("tool_calls") or []
    }


def identifiers_in(arguments: object) -> Iterator[str]:
    """Yield the identifiers among the arguments of a tool call: texts under keys in `_id`, `_ids`, `_number`."""
    if isinstance(arguments, dict):
        for key, value in arguments.items():
            if key.endswith(("_id", "_ids", "_number")):
                texts = (text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))
                yield from (text.removeprefix("#") for text in texts)
            else:
                yield from identifiers_in(value)
    elif isinstance(arguments, list):
        for value in arguments:
            yield from identifiers_in(value)


def usage_of(message: Json) -> Json | None:
    """Return tokens and cost of a model call; a cost of 0.0 is an unknown price and is left out."""
    usage = message.get("usage")
    if not usage:
        return None
    tokens = {"input_tokens": usage.get("prompt_tokens"), "output_tokens": usage.get("completion_tokens")}
    return tokens | ({"cost_usd": message["cost"]} if message.get("cost") else {})


class Conversation:
    """State of one simulation so far, updated message by message."""

    def __init__(self, start: float, agent_model: str | None, user_model: str | None, tiers: dict[str, str]) -> None:
        self.previous_end = start
        self.agent_model, self.user_model, self.tiers = agent_model, user_model, tiers
        self.heard: list[str] = []  # what was said since the agent spoke last
        self.customer_said: str | None = None
        self.seen: dict[str, None] = {}  # identifiers named by the customer or by a tool, in order
        self.calls: dict[str, tuple[str, str, Json]] = {}  # by call id: who called, arguments as written, the call

    def span(self, message: Json) -> Json:
        """Return the span of the next message and take the message into account."""
        turn = message["turn_idx"]
        end = epoch(message["timestamp"])
        span = {
            "span_id": f"turn-{turn:03d}",
            "parent_id": None,
            **self._described(message),
            "started_at": self.previous_end,
            "ended_at": end,
        }
        span["attributes"] = {"turn": turn, **span.pop("attributes", {})}
        self.previous_end = end
        return span

    def _described(self, message: Json) -> Json:
        if message["role"] == "tool":
            return self._tool(message)
        if message["role"] == "user":
            return self._user(message)
        return self._agent(message) if message.get("usage") else self._greeting(message)

    def _greeting(self, message: Json) -> Json:
        return {"component": "greeting", "name": "greet", "kind": "other", "status": "ok", "output": message["content"]}

    def _user(self, message: Json) -> Json:
        text = message["content"] or ""
        self._hear(text)
        self.customer_said = text
        self._see(text)
        self.seen |= dict.fromkeys(token for token in CUSTOMER_TOKEN.findall(text) if len(token) >= 5)
        return {
            "component": "user",
            "name": "customer",
            "kind": "llm",
            "status": "ok",
            "model": model_of(message) or self.user_model,
            "output": text,
            "usage": usage_of(message),
        }

    def _agent(self, message: Json) -> Json:
        text = message.get("content") or ""
        written = arguments_as_written(message)
        calls = message.get("tool_calls") or []
        span_id = f"turn-{message['turn_idx']:03d}"
        self.calls |= {call["id"]: (span_id, written[call["id"]], call) for call in calls}
        model = model_of(message) or self.agent_model
        known: Json = {
            "finish_reason": finish_reason_of(message),
            "generation_time_seconds": message.get("generation_time_seconds"),
            # The key is there in the files of harnesses that reject a reply, and only there.
            "rejected_replies": len(message["errors"] or []) if "errors" in message else None,
            "rejected_because": "\n".join(e.rsplit("Error: ", 1)[-1] for e in message.get("errors") or []) or None,
            "tool_calls": [{"id": c["id"], "name": c["name"], "arguments": written[c["id"]]} for c in calls] or None,
            **self._grounds("ids_said", SAID_IDENTIFIER.findall(text)),
        }
        heard, self.heard = "\n".join(self.heard), []
        return {
            "component": "agent",
            "name": "chat",
            "kind": "llm",
            "status": "ok",
            "model": model,
            "tier": self.tiers.get(model or ""),
            "input": heard,
            "output": text,
            "usage": usage_of(message),
            "attributes": {key: value for key, value in known.items() if value is not None},
        }

    def _tool(self, message: Json) -> Json:
        caller, written, call = self.calls[message["id"]]
        result = message["content"] or ""
        failed = bool(message.get("error"))
        attributes = {"call_id": message["id"], **self._grounds("ids", identifiers_in(call["arguments"]))}
        if call["name"] in WRITING_TOOLS:
            attributes |= {"writes": True, "customer_said": self.customer_said or ""}
        self._hear(result)
        if not failed:  # an error repeats what it was asked for
            self._see(result)
        return {
            "parent_id": caller,
            "component": "tools",
            "name": call["name"],
            "kind": "tool",
            "status": "error" if failed else "ok",
            "error_type": "tool_error" if failed else None,
            "input": written,
            "output": result,
            "attributes": attributes,
        }

    def _grounds(self, key: str, identifiers: Iterable[str]) -> Json:
        """Return the identifiers that the agent wrote beside those it could know; nothing if it wrote none."""
        wrote = list(dict.fromkeys(identifiers))
        return {key: wrote, "seen_ids": list(self.seen)} if wrote else {}

    def _hear(self, text: str) -> None:
        self.heard.append(text)

    def _see(self, text: str) -> None:
        self.seen |= dict.fromkeys(IDENTIFIER.findall(text))


def names_of(path: Path) -> tuple[str, str, str | None]:
    """Return domain, release and environment of a file named `<domain>_[hard_]<model set-up>.json.gz`."""
    stem = path.name.removesuffix(".gz").removesuffix(".json")
    domain, separator, release = stem.partition("_")
    if not separator:
        raise SystemExit(f"{path}: expected a name like airline_gpt-4.1.json.gz (domain, underscore, model set-up)")
    hard = release.startswith("hard_")
    return domain, release.removeprefix("hard_"), "hard" if hard else None


def tiers_of(simulations: list[Json]) -> dict[str, str]:
    """Return the tier of each agent model; empty where one model answers all.

    Where several do, the one with the most calls is `primary` and the others are `fallback`.
    """
    calls = Counter(
        model
        for simulation in simulations
        for message in simulation["messages"]
        if message["role"] == "assistant" and (model := model_of(message))
    )
    ranked = [model for model, _ in calls.most_common()]
    return {} if len(ranked) < 2 else dict.fromkeys(ranked, "fallback") | {ranked[0]: "primary"}


def trace_attributes(simulation: Json, domain: str, spans: list[Json]) -> Json:
    """Return the facts about a whole simulation, those of its evaluation included."""
    evaluation = simulation.get("reward_info") or {}
    last = simulation["messages"][-1] if simulation["messages"] else {}
    ending = ENDING.search(last.get("content") or "") if last.get("role") == "user" else None
    tool_spans = [span for span in spans if span["component"] == "tools"]
    same_call = Counter((span["name"], span["input"]) for span in tool_spans)
    known = {
        "domain": domain,
        "task_id": simulation["task_id"],
        "trial": simulation.get("trial"),
        "termination_reason": simulation.get("termination_reason"),
        "ended_by_customer": ending.group(1) if ending else None,
        "reward": whole(evaluation.get("reward")),
        **{f"reward_{k.lower()}": whole(v) for k, v in (evaluation.get("reward_breakdown") or {}).items()},
        "writes_done": sum(1 for s in tool_spans if s["attributes"].get("writes") and s["status"] == "ok"),
        "most_identical_calls": max(same_call.values(), default=0),
    }
    return {key: value for key, value in known.items() if value is not None}


def whole(number: float | None) -> float | int | None:
    """Return 1 for 1.0, so that a reward reads as a label; other numbers as they are."""
    return int(number) if number is not None and number == int(number) else number


def traces_of(path: Path) -> Iterator[Json]:
    """Yield the envelopes of one result file in order of start."""
    opener = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rt", encoding="utf-8") as file:
        content = json.load(file)
    domain, release, environment = names_of(path)
    info = content.get("info") or {} if isinstance(content, dict) else {}
    simulations: list[Json] = content["simulations"] if isinstance(content, dict) else content
    agent_model = (info.get("agent_info") or {}).get("llm")
    user_model = (info.get("user_info") or {}).get("llm")
    tiers = tiers_of(simulations)
    for simulation in sorted(simulations, key=lambda s: (s["start_time"], s["id"])):
        started_at = epoch(simulation["start_time"])
        conversation = Conversation(started_at, agent_model, user_model, tiers)
        spans = [conversation.span(message) for message in simulation["messages"]]
        yield {
            "trace_id": simulation["id"],
            "pipeline": f"{domain}-agent",
            **({"environment": environment} if environment else {}),
            "release": release,
            "started_at": started_at,
            "ended_at": epoch(simulation["end_time"]),
            "attributes": trace_attributes(simulation, domain, spans),
            "spans": [{key: value for key, value in span.items() if value is not None} for span in spans],
        }


def main(arguments: list[str]) -> int:
    """Convert the files named on the command line to standard output."""
    if not arguments or {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0 if arguments else 2
    for name in arguments:
        for trace in traces_of(Path(name)):
            print(json.dumps(trace, ensure_ascii=False, separators=(",", ":")))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
