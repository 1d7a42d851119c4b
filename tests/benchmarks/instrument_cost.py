"""Measures what `gapwatch instrument` costs code that is not listed, and a listed function, against the plain program.

    python -m tests.benchmarks.instrument_cost [--turns 7] [--python PYTHON]

Each turn runs the same program plain, watched, and with spans written by hand, in new processes one after the other. A
program runs its part nine times and says the best CPU time of its own thread; spans are sent by another. The best of
the turns counts. A ratio of 1.0 is no cost.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from pathlib import Path

from tests.design.emission.watched_programs import (
    collector,
    planned,
    program_environment,
    python_with_events,
    run_watched,
)

#: Code that no design lists: calls, loops and generators; exceptions that unwind; a listed function that does little.
PROGRAM = """\
import sys, time

def small(n):
    return n + 1

def numbers(n):
    for i in range(n):
        yield i

def work():
    total = 0
    for i in range(400_000):
        total += small(i)
    for i in numbers(400_000):
        total += i
    return sum(x * x for x in range(400_000)) + total

def raises(depth):
    if depth:
        raises(depth - 1)
    raise ValueError

def unwinding():
    for _ in range(20_000):
        try:
            raises(5)
        except ValueError:
            pass

def listed(q):
    return q

if sys.argv[2] == "written":
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    trace.set_tracer_provider(TracerProvider())
    trace.get_tracer_provider().add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = trace.get_tracer("own")

    def listed(q):
        with tracer.start_as_current_span("listed") as span:
            span.set_attribute("gapwatch.component", "c")
            span.set_attribute("openinference.span.kind", "CHAIN")
            span.set_attribute("input.value", '{"q": "q"}')
            span.set_attribute("output.value", q)
            return q

def calling():
    for _ in range(2_000):
        listed("q")

part = {"work": work, "unwinding": unwinding, "calling": calling}[sys.argv[1]]
listed("first")
small(0)
times = []
for _ in range(9):
    before = time.thread_time()
    part()
    times.append(time.thread_time() - before)
print(min(times))
"""


def main() -> None:
    """Print the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--python", default=python_with_events())
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, collector() as found:
        app, plan = Path(folder, "app.py"), Path(folder, "design", "spans.json")
        app.write_text(PROGRAM)
        plan.parent.mkdir()
        plan.write_text(json.dumps({"gapwatch_spans": 1, "pipeline": "p", "emit": [planned("listed")], "clients": []}))
        for part, calls in (("work", 0), ("unwinding", 20_000 * 6), ("calling", 2_000)):
            best: dict[str, float] = {}
            for _ in range(options.turns):
                for way in ("plain", "watched", "written"):
                    command = [options.python, str(app), part, way]
                    if way == "watched":
                        ran = run_watched(plan, command, found.url)
                    elif way == "written" and part != "calling":
                        continue
                    else:
                        environment = program_environment(OTEL_EXPORTER_OTLP_ENDPOINT=found.url)
                        ran = subprocess.run(
                            command, env=environment, capture_output=True, text=True, check=True, timeout=120
                        )
                    best[way] = min(best.get(way, float("inf")), float(ran.stdout))
            against = "written" if part == "calling" else "plain"
            extra = (best["watched"] - best["plain"]) / calls * 1e6 if calls else 0.0
            each = f", {extra:.2f} us a {'frame' if part == 'unwinding' else 'span'}" if calls else ""
            words = "spans written by hand" if against == "written" else "the plain program"
            print(f"{part:>10}: {best['watched'] / best[against]:.3f} times {words}{each}")


if __name__ == "__main__":
    main()
