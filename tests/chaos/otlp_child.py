"""A process that receives OTLP and assembles traces without Kafka; it may kill itself at a step of a commit.

python -m tests.chaos.otlp_child FOLDER PORT QUIET_SECONDS [STEP NUMBER]
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.live.spool_feed import SpoolFeed, SpoolOptions
from gapwatch.streams.otlp.receiving.http_receiver import OtlpAddress


def main() -> None:
    folder, port, quiet = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    deadly = (sys.argv[4], int(sys.argv[5])) if len(sys.argv) > 4 else None
    passed: dict[str, int] = {}

    def at_step(step: str) -> None:
        passed[step] = passed.get(step, 0) + 1
        if deadly == (step, passed[step]):
            os.kill(os.getpid(), signal.SIGKILL)

    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    rules = CloseRules(quiet=quiet, orphan=3 * quiet)
    feed = SpoolFeed(SpoolOptions(OtlpAddress("127.0.0.1", port), rules=rules), folder, [], "traces", at_step)
    feed.start()
    print(feed.url, flush=True)
    stopping.wait()
    assert feed.stop(20)


if __name__ == "__main__":
    main()
