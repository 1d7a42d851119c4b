"""Tells code that measures the application over a data set; no user waits for what it asks."""

from __future__ import annotations

import re

from gapwatch.design.source.program import FunctionInfo, Program

#: Names of folders of evaluations, as part of a pattern.
EVALUATION_FOLDERS = r"([\w-]*[-_]|auto)?evals?|evaluations?|evaluators?|benchmark\w*"
#: Names of files and folders that may hold one, and of functions: `tasks/evaluate.py`, `run_eval`.
_OF_FILES = re.compile(r"(^|[-_])(evals?|evaluate|evaluations?|benchmarks?)([-_]|$)", re.I)
_OF_FUNCTIONS = re.compile(r"(^|_)(evals?|evaluations?|benchmarks?)(_|$)")
#: Words by which a file says that what it measures with is kept in a data set.
_DATA_SETS = re.compile(
    rb"data_?sets?|ground_?truths?|golden_?\w+|\b(ragas|deepeval|trulens\w*|langsmith\.evaluat\w+)\b", re.I
)


def is_offline_evaluation(program: Program, function: FunctionInfo) -> bool:
    """Return whether a function measures over a data set, by its name or that of its file, and the words in the file.

    An application may evaluate what its users send: a file without a data set is none of these.
    """
    parts = program.path(function).removesuffix(".py").split("/")
    if not any(map(_OF_FILES.search, parts)) and not _OF_FUNCTIONS.search(function.ir.name):
        return False
    file = program.files[function.module]
    return file is not None and _DATA_SETS.search(file.source) is not None
