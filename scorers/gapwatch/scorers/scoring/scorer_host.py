"""Runs Python scorers in a separate process: a scorer that raises, hangs or crashes costs only its batch."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.scoring.python_scorer import REGISTRY, Scored, Span, as_scored

#: Seconds for one batch. If it is shorter, scorers that load a model at first use time out; if longer, the slice waits.
DEFAULT_TIMEOUT_SECONDS = 30.0
#: Spans per batch. With fewer, sending costs more; with more, a timeout loses more spans.
BATCH_SPANS = 256
_START_SECONDS = 60.0


@dataclass(frozen=True)
class Failed:
    """Reason for a span without an answer.

    Attributes:
        reason: `exception`, `timeout` or `bad_result`.
        detail: Details in a few words.
    """

    reason: str
    detail: str


class ScorerHost:
    """Child process with the user's module; it is started again after each crash or timeout.

    Args:
        module: Importable name, or path of a `.py` file.
        timeout_seconds: Time for one batch.

    Raises:
        UsageError: The module cannot be loaded.
    """

    def __init__(self, module: str, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> None:
        self._module = module
        self._timeout = timeout_seconds
        self._process: multiprocessing.process.BaseProcess | None = None
        self._connection: Connection | None = None
        self.scorers: dict[str, tuple[str, ...]] = {}
        self._start()

    def __enter__(self) -> ScorerHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, name: str, spans: list[Span]) -> list[Scored | Failed]:
        """Return one answer per span, in their order; whatever the scorer does, this never raises."""
        answers: list[Scored | Failed] = []
        for start in range(0, len(spans), BATCH_SPANS):
            answers += self._batch(name, spans[start : start + BATCH_SPANS])
        return answers

    def close(self) -> None:
        """End the child process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _batch(self, name: str, spans: list[Span]) -> list[Scored | Failed]:
        if self._connection is None:
            self._start()
        assert self._connection is not None
        try:
            self._connection.send((name, spans))
            if not self._connection.poll(self._timeout):
                self.close()
                return [Failed("timeout", f"no answer in {self._timeout:g} s")] * len(spans)
            answers: list[Scored | Failed] = self._connection.recv()
        except (EOFError, OSError):
            self.close()
            return [Failed("exception", "the scorer's process died")] * len(spans)
        return answers

    def _start(self) -> None:
        # "spawn": the parent has threads and an open store, which a fork would copy in an undefined state.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(self._module, theirs), daemon=True)
        process.start()
        theirs.close()
        self._process, self._connection = process, ours
        try:
            answer = ours.recv() if ours.poll(_START_SECONDS) else f"not imported in {_START_SECONDS:g} s"
        except EOFError:
            answer = "its process died"
        if isinstance(answer, str):
            self.close()
            raise UsageError(f"the scorers' module {self._module} cannot be loaded: {answer}")
        self.scorers = answer


def _serve(module: str, connection: Connection) -> None:
    """Run the child process: import the module, send its scorers' names, answer batches until the parent is gone."""
    # What a scorer prints must not mix with the parent's standard output.
    os.dup2(2, 1)
    try:
        _import(module)
    except BaseException as error:
        connection.send(f"{type(error).__name__}: {error}")
        return
    connection.send({name: registered.fields for name, registered in REGISTRY.items()})
    while True:
        try:
            name, spans = connection.recv()
        except EOFError:
            return
        connection.send(_answers(name, spans))


def _import(module: str) -> None:
    path = Path(module)
    if path.suffix == ".py":
        sys.path.insert(0, str(path.parent.resolve()))
        importlib.import_module(path.stem)
    else:
        sys.path.insert(0, str(Path.cwd()))
        importlib.import_module(module)


def _answers(name: str, spans: list[Span]) -> list[Scored | Failed]:
    try:
        answers: Iterable[Any] = list(REGISTRY[name].function(spans))
    except Exception as error:
        return [Failed("exception", type(error).__name__)] * len(spans)
    answers = list(answers)
    if len(answers) != len(spans):
        return [Failed("bad_result", f"{len(answers)} answers for {len(spans)} spans")] * len(spans)
    return [_answer(answer) for answer in answers]


def _answer(answer: Any) -> Scored | Failed:
    try:
        return as_scored(answer)
    except ValueError as error:
        return Failed("bad_result", str(error))
