"""Begins to emit spans before the program runs; Python imports this module by its name at start."""

from __future__ import annotations

import contextlib
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_HERE = Path(__file__).resolve().parent
#: Folder that holds the package `gapwatch` of the design stage.
_ROOT = _HERE.parents[4]


def _begin() -> None:
    plan = os.environ.get("GAPWATCH_SPANS")
    if not plan:
        return
    is_first = os.environ.get("GAPWATCH_INSTRUMENT_PID") == str(os.getpid())
    problem = _problem()
    if problem:
        if is_first:
            print(f"gapwatch instrument: {problem}", file=sys.stderr, flush=True)  # noqa: T201
            os._exit(2)  # An exception would leave the module `site` half imported, with a fatal error of Python's own.
        return  # A helper program under another Python runs as it is.
    sys.path.append(str(_ROOT))
    try:
        from gapwatch.design.emission.interpreter.code_events import watch

        watch(Path(plan), has_content=os.environ.get("GAPWATCH_CONTENT") != "0")
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(str(_ROOT))


def _problem() -> str:
    if sys.version_info < (3, 12):
        found = f"{sys.version_info.major}.{sys.version_info.minor}"
        return (
            f"{sys.executable} is Python {found}; the interpreter's events need 3.12 or newer. Run the program with a "
            "newer Python, or write the spans into it: gapwatch design REPO --instrument DIR"
        )
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace  # noqa: F401
    except ImportError as error:
        return (
            f"{sys.executable} cannot import {error.name}; install OpenTelemetry beside the program: "
            "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        )
    return ""


def _run_next() -> None:
    """Run the `sitecustomize` that Python would have run without this one."""
    others = [entry for entry in sys.path if entry and Path(entry).resolve() != _HERE]
    spec = PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(module_from_spec(spec))


_run_next()
_begin()
