"""A real run, asked and decided on by its file and by its address, from this machine and as from another."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gapwatch.sinks.api.endpoint_note import read_note
from tests.gapwatch_command import Ran, gapwatch
from tests.kafka_broker import KafkaBroker
from tests.store_commands import DECIDING, READING
from tests.streams.live.test_run_alerts import PORTFOLIO, shop_traces
from tests.streams.run_process import Children, Watched, make_relayed_topics

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

READ, WRITE = "read-token-of-the-run", "write-token-of-the-run"


@dataclass(frozen=True)
class Running:
    """A run, and what to name in commands on it."""

    watched: Watched
    url: str
    alert: str
    row: str

    @property
    def store(self) -> Path:
        path: Path = self.watched.store
        return path

    def both(self, command: list[str]) -> list[tuple[int, str, str]]:
        """What a command says by address and by file, without the name of the store."""
        words = [{"ALERT": self.alert, "ROW": self.row}.get(word, word) for word in command]
        return [said(gapwatch(*words, "--store", store), store) for store in (self.url, self.store)]


def said(ran: Ran, store: object) -> tuple[int, str, str]:
    # A silence ends eight hours after it was asked for: the second differs.
    out = re.sub(r"until \S+ \S+Z", "until T", ran.out)
    return ran.status, out.replace(str(store), "S"), ran.err.replace(str(store), "S")


@pytest.fixture(scope="module")
def run(kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A run that has read a topic in which answers break, and asks for tokens."""
    folder = tmp_path_factory.mktemp("run")
    for name, token in (("read", READ), ("write", WRITE)):
        (folder / name).write_text(token + "\n")
    make_relayed_topics(kafka_broker)
    topic = kafka_broker.make_topic()
    kafka_broker.produce(topic, shop_traces())
    children = Children()
    watched = Watched(children, folder / "store", kafka_broker, topic, [PORTFOLIO])
    watched.start("--read-token-file", folder / "read", "--write-token-file", folder / "write")
    watched.wait_until(lambda: read_note(watched.store) is not None)
    note = read_note(watched.store)
    assert note is not None

    def opened() -> list[Any]:
        found: list[Any] = gapwatch("alerts", "--store", watched.store, "--format", "json").json()
        return found

    watched.wait_until(lambda: len(opened()) == 2)
    every = len(shop_traces())
    sql = "SELECT coalesce(max(to_offset), 0) AS n FROM offsets"
    asked = ("history", sql, "--store", watched.store, "--format", "json")
    watched.wait_until(lambda: gapwatch(*asked).json() == [{"n": every}])
    (alert,) = [one["alert_id"] for one in opened() if one["metric"] == "parses"]
    place = ("source_topic", "source_partition", "source_offset", "span_index", "metric")
    rows = f"SELECT concat_ws('/', {', '.join(place)}) AS r"
    (row,) = gapwatch(
        "history", f"{rows} FROM gaps WHERE outcome = 'fail' LIMIT 1", "--store", watched.store, "--format", "json"
    ).json()
    yield Running(watched, note.url, alert, row["r"])
    assert watched.end() == 0
    children.close()


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_a_command_by_address_says_what_it_says_by_file(run: Running, command: list[str]) -> None:
    by_address, by_file = run.both(command)
    assert by_address == by_file


@pytest.mark.parametrize("command", DECIDING, ids=" ".join)
def test_a_decision_by_address_is_that_by_file(run: Running, command: list[str]) -> None:
    run.both(command)  # the first time there may be more to do: shifts to relabel
    by_address, by_file = run.both(command)
    assert by_address == by_file
    is_refused = any("no-such-" in word or "no_such_" in word for word in command)
    assert by_address[0] == (2 if is_refused else 0), by_address


def test_from_another_machine_each_use_needs_its_token(run: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another machine has no note; a folder that is not there stands for that."""
    monkeypatch.setattr("gapwatch.sinks.api.connection.read_note", lambda store: None)
    without = gapwatch("rates", "--store", run.url)
    assert (without.status, "asks for its read token" in without.err) == (2, True)
    monkeypatch.setenv("GAPWATCH_TOKEN", READ)
    assert gapwatch("rates", "--store", run.url).status == 0
    refused = gapwatch("annotate", "x", "--store", run.url)
    assert (refused.status, "as its write token" in refused.err) == (2, True)
    monkeypatch.setenv("GAPWATCH_TOKEN", WRITE)
    assert gapwatch("annotate", "x", "--store", run.url).status == 0
    taken = gapwatch("snapshot", "--store", run.url, "--name", "by-address")
    assert (taken.status, Path(taken.out.strip()).is_dir()) == (0, True)


def test_a_read_token_is_asked_for_on_this_machine_and_no_token_is_in_the_log(run: Running) -> None:
    def status(token: str = "") -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            with urllib.request.urlopen(
                urllib.request.Request(run.url + "/metrics", headers=headers), timeout=60
            ) as got:
                return int(got.status)
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    assert [status(), status("guess"), status(READ), status(WRITE)] == [401, 401, 200, 200]
    assert READ not in run.watched.said() and WRITE not in run.watched.said()
