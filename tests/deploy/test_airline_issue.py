"""A bad release among 4,000 conversations: one draft, its tests, and the return of what was fixed, on a live run.

Truth labels, fixed before anything was scored: a conversation is of the planted fault if `qwen2.5-7b` held it.
No metric reads the release, and the reward of the benchmark is taken out of the traces.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from gapwatch.sinks.api.endpoint_note import read_note
from gapwatch.sinks.commands.options import reading
from gapwatch.sinks.issues.alert_group import alert_group
from tests.deploy.airline_releases import BAD, mixed, stream, unknown_identifiers
from tests.gapwatch_command import gapwatch
from tests.kafka_broker import KafkaBroker
from tests.paths import AIRLINE
from tests.streams.evaluation.testing.recorded_endpoint import serving, verdict
from tests.streams.run_process import Children, Watched, make_relayed_topics

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: Conversations before the bad release, and then with it: half of these are its own.
BEFORE, WITH = 3_600, 400
GUIDELINE = "Looks up and books only with identifiers that the customer or a tool has named before."


def judge(_: str, messages: list[dict[str, str]]) -> tuple[int, str]:
    """Apply the guideline to what the prompt shows."""
    text = messages[-1]["content"]
    assert GUIDELINE in text or any(GUIDELINE in one["content"] for one in messages)
    unknown = unknown_identifiers(text)
    return 200, verdict(messages, 0 if unknown else 1, f"nobody named {unknown[0]}" if unknown else "all were named")


def outcomes(folder: Path, store: Path, url: str, release: str, issue: str) -> list[str]:
    """Run the issue's tests on a release, and return their outcomes."""
    config = folder / f"{release}.yaml"
    written: dict[str, Any] = {
        "entrypoint": {"module": "tests.deploy.airline_releases", "function": release},
        "judges": [{"base_url": url, "model": "rule"}],
        "choose": {"issues": [issue]},
    }
    config.write_text(yaml.safe_dump(written))
    ran = gapwatch("test", "run", config, "--store", store, "--name", release, "--quiet")
    assert ran.status == 0, ran.err
    with reading(store) as con:
        from gapwatch.sinks.issues.run_outcomes import read_run

        return [one.outcome for one in read_run(con, release).outcomes.values()]


def test_a_bad_release_becomes_one_draft_whose_return_is_told(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    make_relayed_topics(kafka_broker)
    chance, topic = random.Random(19), kafka_broker.make_topic()
    releases = [*mixed(BEFORE, 0.0, chance), *mixed(WITH, 0.5, chance)]
    planted = {f"c{number}" for number, release in enumerate(releases) if release == BAD}
    kafka_broker.produce(topic, stream(releases, 0, chance))
    children = Children()
    portfolio = (AIRLINE / "portfolio.yaml").read_text()
    watched = Watched(children, tmp_path / "run", kafka_broker, topic, [portfolio])
    try:
        watched.start()
        watched.wait_until(lambda: read_note(watched.store) is not None)

        def stored() -> int:
            sql = "SELECT coalesce(max(to_offset), 0) AS n FROM offsets WHERE lane = 'live'"
            return int(gapwatch("history", sql, "--store", watched.store, "--format", "json").json()[0]["n"])

        watched.wait_until(lambda: stored() == len(releases), 180)

        # The queue of alerts, the first made and the rest joined to what is proposed, is one draft.
        queue = gapwatch("triage", "list", "--kind", "alert", "--store", watched.store, "--format", "json").json()
        first = next(item for item in queue if item["metrics"] == ["ids_known"])
        made = gapwatch("triage", "make", first["key"], "--store", watched.store, "--by", "ann")
        assert made.status == 0, made.err
        issue = made.out.strip()
        assert gapwatch("triage", "list", "--kind", "alert", "--store", watched.store, "--format", "json").json() == []
        (draft,) = gapwatch("issue", "list", "--store", watched.store, "--format", "json").json()
        assert (draft["issue_id"], draft["status"]) == (issue, "draft")
        with reading(watched.store) as con:
            group = alert_group(con, first["item"])
        assert group is not None
        pure = sum(trace in planted for trace in group.traces) / len(group.traces)
        assert pure >= 0.9, (pure, group)
        assert len(group.traces) >= group.failing / 2

        # Its tests tell the releases apart.
        words = ("--status", "open", "--guideline", GUIDELINE, "--store", watched.store)
        assert gapwatch("issue", "set", issue, *words).status == 0
        with serving(judge) as (url, _):
            bad = outcomes(tmp_path, watched.store, url, "bad_release", issue)
            good = outcomes(tmp_path, watched.store, url, "good_release", issue)
        assert len(bad) == len(good) >= 3
        assert set(bad) == {"fail"}
        assert set(good) == {"pass"}

        # Fixed, then back. The first alert must end before a new one can open: after 1,000 good conversations it had
        # not ended, after 2,480 it had.
        fixed = gapwatch("issue", "set", issue, "--status", "fixed", "--store", watched.store, "--why", "rolled back")
        assert fixed.status == 0, fixed.err
        again = [*mixed(3_000, 0.0, chance), *mixed(200, 0.5, chance)]
        kafka_broker.produce(topic, stream(again, len(releases), chance))

        def status() -> Any:
            return gapwatch("issue", "show", issue, "--store", watched.store, "--format", "json").json()

        watched.wait_until(lambda: stored() == len(releases) + len(again), 120)
        watched.wait_until(lambda: status()["status"] == "regressed", 30)
        change = status()["changes"][-1]
        assert change["by"] == "gapwatch" and change["why"].endswith("of ids_known"), json.dumps(change)
        assert f"issue {issue} has regressed" in watched.said()
        assert watched.end() == 0, watched.said()
    finally:
        if watched.pid is not None:
            watched.kill()
        children.close()
