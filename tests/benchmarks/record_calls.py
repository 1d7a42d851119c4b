"""Records which functions below a folder really call each other while a module of Python runs, tests for instance.

    PROJECT_PYTHON tests/benchmarks/record_calls.py ROOT OUT.json -m pytest tests -q

Stands alone, so that the project's own environment can run it. It imports and runs the project: give it only what you
would run anyway. Written as soon as the run ends, however it ends: `[[caller, callee, kind], ...]` with dotted names
relative to ROOT; kind `direct`, or `via` where library code stands between the two.
"""

from __future__ import annotations

import atexit
import json
import re
import runpy
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

_INNER = re.compile(r"\.?<(listcomp|genexpr|dictcomp|setcomp)>")


def _name(code: CodeType, root: Path) -> str:
    module = ".".join(Path(code.co_filename).relative_to(root).with_suffix("").parts).removesuffix("__init__")
    qual = _INNER.sub("", code.co_qualname.replace(".<locals>", "")).removeprefix("<module>")
    return ".".join(part for part in (module.strip("."), qual) if part)


def record(root: Path, out: Path) -> None:
    """Start recording in all threads; write at exit."""
    seen: set[tuple[CodeType, CodeType, bool]] = set()
    prefix = str(root) + "/"
    inside: dict[CodeType, bool] = {}

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        del argument
        if event != "call":
            return
        code = frame.f_code
        here = inside.get(code)
        if here is None:
            here = inside[code] = code.co_filename.startswith(prefix)
        if not here:
            return
        caller, direct = frame.f_back, True
        while caller is not None and not caller.f_code.co_filename.startswith(prefix):
            caller, direct = caller.f_back, False
        if caller is not None:
            seen.add((caller.f_code, code, direct))

    def write() -> None:
        sys.setprofile(None)
        # Class bodies and modules are code objects, too, but nobody calls them; flag 2: a code has local names.
        rows = {(_name(a, root), _name(b, root), "direct" if d else "via") for a, b, d in set(seen) if b.co_flags & 2}
        out.write_text(json.dumps(sorted(row for row in rows if row[0] != row[1])))

    atexit.register(write)
    threading.setprofile(profile)
    sys.setprofile(profile)


def main() -> None:
    """Run the module that is named, recording."""
    root, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    if sys.argv[3] != "-m":
        raise SystemExit("usage: record_calls.py ROOT OUT.json -m MODULE [ARGUMENTS]")
    sys.argv = sys.argv[4:]
    sys.path[0] = str(Path.cwd())
    record(root, out)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
