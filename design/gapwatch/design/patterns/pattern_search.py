"""Runs the detectors of the code patterns on every function; `has_cascade` is what `routes` finds."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from gapwatch.design.patterns.breakers import find_breakers
from gapwatch.design.patterns.caches import find_caches
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.code_runs import find_code_runs, find_refused_code
from gapwatch.design.patterns.context_cuts import find_context_cuts
from gapwatch.design.patterns.failures import find_handlers, find_retries
from gapwatch.design.patterns.hit import PATTERNS, PatternHit, Subject
from gapwatch.design.patterns.model_calls import find_model_calls
from gapwatch.design.patterns.outside_calls import find_json, find_queues, find_services, find_writes
from gapwatch.design.patterns.streams import find_streams
from gapwatch.design.source.program import Program

__all__ = ["PATTERNS", "PatternHit", "find_patterns"]

_DETECTORS: tuple[Callable[[Subject], Iterator[PatternHit]], ...] = (
    find_handlers,
    find_retries,
    find_json,
    find_services,
    find_model_calls,
    find_caches,
    find_writes,
    find_streams,
    find_queues,
    find_breakers,
    find_context_cuts,
    find_code_runs,
    find_refused_code,
)

#: Hits of a detector in one function. A generated one with thousands says no more, and many rules look at each.
MOST_HITS = 64


def find_patterns(program: Program, sites: CallSites) -> tuple[PatternHit, ...]:
    """Return every hit in every function, sorted by file and line.

    A detector that exceeds the recursion limit on a function skips that function only.

    Args:
        program: All files in intermediate form.
        sites: Targets of all call sites.
    """
    hits: set[PatternHit] = set()
    for info in program.functions:
        if not info.ir.body or info.is_overload:
            continue
        subject = Subject(program, sites, info)
        for detector in _DETECTORS:
            try:
                hits.update(itertools.islice(detector(subject), MOST_HITS))
            except RecursionError:
                continue
    return tuple(sorted(hits))
