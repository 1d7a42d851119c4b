"""Kills a feed again and again under load, and compares what it assembled with an undisturbed run.

    python -m tests.chaos.otlp_long_run --kills 40 --seed 1 --traces 2000

Half of the kills come at a named step of a commit, half at a random time. It prints one line of JSON.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from pathlib import Path

import orjson

from tests.chaos.otlp_feeding import STEPS, Fed, assert_whole, requests, spans_of
from tests.streams.otlp.ports import free_port


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--traces", type=int, default=2000)
    given = parser.parse_args()
    chance, bodies = random.Random(given.seed), requests(given.traces, given.seed)
    with tempfile.TemporaryDirectory() as folder:
        killed = Fed(Path(folder) / "killed", free_port(), quiet=1.0)
        killed.start()
        started = time.monotonic()
        for number, body in enumerate(bodies):
            killed.send(body)
            due = (number + 1) * given.kills // len(bodies)
            if killed.kills < due:
                if due % 2:
                    time.sleep(chance.random() / 4)
                    killed.kill()
                    killed.deadly = [(chance.choice(STEPS), str(chance.randint(1, 3)))]
                    killed.start()
                else:
                    time.sleep(0.5)  # the step comes
                    killed.revive()
                    if killed.kills < due:
                        killed.kill()
                        killed.start()
        killed.end(120.0)
        assert_whole(killed, bodies)
        found = {
            "kills": killed.kills, "traces": given.traces, "spans": spans_of(bodies), "requests": len(bodies),
            "seconds": round(time.monotonic() - started, 1), "ledger": dict(killed.last().counts),
        }  # fmt: skip
        print(orjson.dumps(found).decode())


if __name__ == "__main__":
    main()
