"""Compares the call graph of an installed package with the calls that scripts really make in it.

    python -m tests.benchmarks.design_dynamic PACKAGE SCRIPT_OR_MODULE...

Unlike the design stage itself, this benchmark imports and runs the package: give it only what you would run anyway.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import re
import runpy
import sys
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from design.analysis import build
from design.scan import scan_repository

_INNER = re.compile(r"\.?<(listcomp|genexpr|dictcomp|setcomp)>")
_LAMBDA = re.compile(r"<lambda\d*>")


def _name(code: CodeType, root: Path) -> str:
    module = ".".join(Path(code.co_filename).relative_to(root).with_suffix("").parts).removesuffix(".__init__")
    qual = _INNER.sub("", code.co_qualname.replace(".<locals>", "")).removeprefix("<module>")
    return f"{module}.{qual}" if qual else module


def calls_of(root: Path, scripts: list[str]) -> set[tuple[str, str]]:
    """Return the direct calls between functions of the package while the scripts ran."""
    seen: set[tuple[CodeType, CodeType]] = set()
    prefix = str(root) + "/"

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        del argument
        caller = frame.f_back
        if event != "call" or caller is None or not frame.f_code.co_filename.startswith(prefix):
            return
        if caller.f_code.co_filename.startswith(prefix):
            seen.add((caller.f_code, frame.f_code))

    for script in scripts:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(BaseException):
            sys.setprofile(profile)
            runpy.run_path(script, run_name="__main__") if script.endswith(".py") else runpy.run_module(
                script, run_name="__main__"
            )
        sys.setprofile(None)
    # Class bodies and modules are code objects, too, but nobody calls them; flag 2 says that a code has local names.
    functions = {(a, b) for a, b in seen if b.co_flags & 2}
    return {(_name(a, root), _name(b, root)) for a, b in functions if _name(a, root) != _name(b, root)}


def main() -> None:
    """Print the share that the graph holds, and what it lacks."""
    package = importlib.import_module(sys.argv[1])
    root = Path(str(package.__file__)).parent
    ran = {(_LAMBDA.sub("<lambda>", a), _LAMBDA.sub("<lambda>", b)) for a, b in calls_of(root, sys.argv[2:])}
    _, graph = build(scan_repository(root))
    held = {(_LAMBDA.sub("<lambda>", e.src), _LAMBDA.sub("<lambda>", e.dst)) for e in graph.edges}
    missing = sorted(ran - held)
    print(f"{len(ran)} calls ran, {len(ran) - len(missing)} in the graph: {1 - len(missing) / max(1, len(ran)):.3f}")
    for caller, callee in missing:
        print(f"  {caller} -> {callee}")


if __name__ == "__main__":
    main()
