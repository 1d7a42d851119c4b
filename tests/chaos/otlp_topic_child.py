"""A process that assembles a topic of spans; it may kill itself at a step of a commit.

    python -m tests.chaos.otlp_topic_child BROKERS SPANS TRACES GROUP [STEP NUMBER]

QUIET_SECONDS of the environment says when it closes a trace, 1 by default; with FREEZES it stops itself (SIGSTOP)
instead. It ends when everything that was there is
assembled, and prints the ledger of spans.
"""

from __future__ import annotations

import os
import signal
import sys
import time

import orjson

from gapwatch.publisher.kafka_settings import KafkaSettings
from gapwatch.streams.otlp.assembly.assembler import Assembler
from gapwatch.streams.otlp.assembly.close_rules import CloseRules
from gapwatch.streams.otlp.live.span_topics import SpanTopics
from gapwatch.streams.otlp.live.topic_assembly import TopicAssembly
from gapwatch.streams.otlp.mapping.mapper import TraceMapper


def main() -> None:
    brokers, spans, traces, group = sys.argv[1:5]
    deadly = (sys.argv[5], int(sys.argv[6])) if len(sys.argv) > 5 else None
    quiet = float(os.environ.get("QUIET_SECONDS", "1"))
    passed: dict[str, int] = {}

    def at_step(step: str) -> None:
        passed[step] = passed.get(step, 0) + 1
        if deadly == (step, passed[step]):
            os.kill(os.getpid(), signal.SIGSTOP if "FREEZES" in os.environ else signal.SIGKILL)

    def make() -> Assembler:
        return Assembler(TraceMapper.of([]), CloseRules(quiet=quiet, orphan=2 * quiet))

    failed: list[BaseException] = []
    running = TopicAssembly(KafkaSettings(brokers), SpanTopics(spans, "", traces, group), make, at_step)
    running.start(failed.append)
    while not failed and not (running.is_done and running.counts):
        time.sleep(0.05)
    assert running.stop(20)
    assert not failed, failed
    print(orjson.dumps(dict(running.counts)).decode())


if __name__ == "__main__":
    main()
