"""Slices of one transaction give the alerts and the state that each gives in a transaction of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gapwatch.sinks.store.store import Store
from gapwatch.streams.alerting.evaluation import shift_watch
from gapwatch.streams.alerting.evaluation.shift_watch import ShiftWatch
from tests.streams.alerting.builders import KEPT_AT, portfolio
from tests.streams.alerting.evaluation.test_catching_up import Backlog, backlog, found, second


def groups_of(made: Backlog, seed: int) -> list[Backlog]:
    """Cut the slices into transactions of one to four."""
    cuts = np.cumsum(np.random.default_rng(seed).integers(1, 5, len(made))).tolist()
    starts = [0, *(cut for cut in cuts if cut < len(made))]
    return [made[first:last] for first, last in zip(starts, [*starts[1:], len(made)], strict=True)]


def run(path: Path, groups: list[Backlog], together: bool) -> tuple[list[Any], bytes]:
    with Store.open(path, create=True) as store:
        watch = ShiftWatch.open(store, [portfolio()])
        for number, group in enumerate(groups):
            moment = KEPT_AT.fromtimestamp(second(number), KEPT_AT.tzinfo)
            waiting = []
            for i, (scored, unread) in enumerate(group, start=1):
                taken = watch.take(scored, moment, unread, is_last=not together or i == len(group))
                waiting.append((taken.scored, taken.steps))
                if not together:
                    store.write_slices([waiting.pop()], moment)
            if waiting:
                store.write_slices(waiting, moment)
        return found(store), watch.packed()


def test_the_alerts_and_the_state_are_those_of_slices_stored_alone(tmp_path: Path, monkeypatch: Any) -> None:
    # A state is saved every second group: in the middle of the stream, at the end of a transaction.
    monkeypatch.setattr(shift_watch, "_SNAPSHOT_SECONDS", 0.4)
    groups = groups_of(backlog(1), seed=1)

    alone = run(tmp_path / "alone", groups, together=False)
    together = run(tmp_path / "together", groups, together=True)

    assert together == alone
    assert together[0][0], "the stream breaks, so there is an alert"
    with Store.open(tmp_path / "together") as store:
        ((saved, last),) = store.query(
            "SELECT max(seq), (SELECT max(seq) FROM offsets) FROM internal.detector_snapshots"
        )
        assert 0 < saved <= last
        assert ShiftWatch.open(store, [portfolio()]).packed() == together[1]
