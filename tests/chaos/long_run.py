"""A long run under faults: kills, freezes, broker faults and full disks, and the store must equal an undisturbed one.

    python -m tests.chaos.long_run                                   # 1,000,000 records, about a quarter of an hour
    python -m tests.chaos.long_run --records 60000 --kills 6 --stops 2 --broker-faults 2 --full-disks 1

Four partitions, so that groups of slices are committed together; rows are thinned. Faults come in an order from a seed,
each after something was committed. Exit status 1: the stores differ, or records are lost or counted twice.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.store_contents import contents
from tests.kafka_broker import running_broker
from tests.streams.run_process import Children, Watched, assert_same, make_relayed_topics, trace

PARTITIONS = 4
THINNED = ("--thin-window=20000", "--thin-rows=200")
#: Records of a slice under faults. More: all is read before the last fault.
SLICE = 500
_CHUNK = 20_000


def main() -> None:
    """Fill a topic, read it once undisturbed and once under faults, and compare the stores."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.long_run", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--stops", type=int, default=10, help="freezes of the run, of 1 to 9 s")
    parser.add_argument("--broker-faults", type=int, default=6, help="kills and freezes of the broker, in turns")
    parser.add_argument("--full-disks", type=int, default=4)
    parser.add_argument("--seed", type=int, default=20261124)
    asked = parser.parse_args()
    children = Children()
    with tempfile.TemporaryDirectory() as name, running_broker(Path(name) / "broker") as broker:
        folder = Path(name)
        make_relayed_topics(broker)
        topic = broker.make_topic(partitions=PARTITIONS)
        began = time.monotonic()
        for first in range(0, asked.records, _CHUNK):
            _produce(broker, topic, first, min(first + _CHUNK, asked.records))
        print(f"{asked.records} records in the topic after {time.monotonic() - began:.0f} s", flush=True)
        undisturbed = Watched(children, folder / "undisturbed", broker, topic)
        watched = Watched(children, folder / "watched", broker, topic, max_records=SLICE, session_seconds=6.0)
        try:
            _catch_up(undisturbed)
            print(f"undisturbed run stored after {time.monotonic() - began:.0f} s", flush=True)
            faults = ["kill"] * asked.kills + ["stop"] * asked.stops + ["full disk"] * asked.full_disks
            faults += ["broker killed", "broker frozen"] * (asked.broker_faults // 2)
            _disturb(watched, broker, faults, random.Random(asked.seed))
            stored = sum(watched.offsets().values())
            print(f"{len(faults)} faults, {stored} records stored under them", flush=True)
            assert stored < asked.records, "all was read before the last fault"
            told = _catch_up(watched)
            assert told["ledger_imbalance"] == 0, told
            assert_same(watched, undisturbed)
            _report(watched, asked.records)
        finally:
            for one in (undisturbed, watched):
                if one.pid is not None:
                    one.signal(signal.SIGCONT)
                    one.kill()
            children.close()


def _produce(broker: Any, topic: str, first: int, last: int) -> None:
    for partition in range(PARTITIONS):
        numbers = range(first + partition, last, PARTITIONS)
        broker.produce(topic, [b"no trace %d" % n if n % 501 == 500 else trace(n) for n in numbers], partition)


def _catch_up(watched: Watched) -> Any:
    (watched.folder / "out").unlink(missing_ok=True)
    status = watched.start("--until-caught-up", "--json", *THINNED, max_records=8_000).wait(900.0)
    assert status == 0, watched.said()
    return json.loads((watched.folder / "out").read_text())


def _disturb(watched: Watched, broker: Any, faults: list[str], chance: random.Random) -> None:
    chance.shuffle(faults)
    for number, fault in enumerate(faults, start=1):
        if fault == "full disk":
            _fill_disk(watched, chance)
            continue
        if watched.pid is None:
            before = watched.size()
            watched.start(*THINNED)
            watched.wait_until(lambda before=before: watched.size() != before, 120.0)
        time.sleep(chance.uniform(0.0, 0.25))
        if fault == "kill":
            watched.kill()
        elif fault == "stop":
            _freeze(watched.signal, chance)
        elif fault == "broker frozen":
            _freeze(broker.signal, chance)
        else:
            broker.kill()
            time.sleep(chance.uniform(0.5, 3.0))
            broker.start()
        if fault != "kill":
            before = watched.size()
            watched.wait_until(lambda before=before: watched.size() != before, 180.0)
        if number % 10 == 0:
            print(f"{number} of {len(faults)} faults", flush=True)
    if watched.pid is not None:
        watched.kill()


def _freeze(send: Any, chance: random.Random) -> None:
    send(signal.SIGSTOP)
    time.sleep(chance.uniform(1.0, 9.0))
    send(signal.SIGCONT)


def _fill_disk(watched: Watched, chance: random.Random) -> None:
    """Let no file grow beyond a size little above that of the store, until the run ends for it."""
    if watched.pid is not None:
        watched.kill()
    largest = max(watched.size()) + chance.randrange(300_000, 2_000_000)
    status = watched.start(*THINNED, largest_file=largest).wait(180.0)
    assert status == 1, f"{status}: {watched.said()}"
    assert "make room" in watched.said() or "disk is full" in watched.said(), watched.said()


def _report(watched: Watched, records: int) -> None:
    stored = {name: of[0] for name, of in contents(watched.store).items() if name != "sums"}
    lost = records - sum(watched.offsets().values())
    groups = watched.query("SELECT count(*), count(DISTINCT kept_at) FROM offsets")[0]
    ids = watched.query("SELECT count(*), count(DISTINCT id) FROM internal.outbox")[0]
    twice = watched.query("SELECT count(*) - count(DISTINCT trace_hash) FROM internal.trace_ids")[0][0]
    print(f"rows equal to those of the undisturbed run: {stored}")
    print(f"{lost} lost, {twice} twice; {groups[0]} slices in {groups[1]} commits; outbox {ids[0]}, distinct {ids[1]}")
    assert not lost
    assert not twice
    assert ids[0] == ids[1]


if __name__ == "__main__":
    main()
