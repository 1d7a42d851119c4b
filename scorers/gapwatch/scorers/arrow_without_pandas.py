"""Keeps pyarrow from importing pandas in a process of `gapwatch`.

pyarrow imports pandas, where it is installed, when it makes its first array. No command uses pandas, whose import takes
0.4 s of CPU and 34 MB. Other packages, such as those that bring commands of their own, import it as ever.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Top-level packages for which pandas is missing. Compiled code has no frame: an import by pyarrow is its caller's.
_WITHOUT = frozenset({"gapwatch", "pyarrow"})


class PandasHider:
    """Finder of modules that finds none, and reports pandas as missing to Gapwatch and pyarrow."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return None, so that the next finder is asked.

        Raises:
            ModuleNotFoundError: Gapwatch or pyarrow looks for pandas.
        """
        if name == "pandas" and _importer() in _WITHOUT:
            raise ModuleNotFoundError("no command of gapwatch uses pandas", name=name)
        return None


def hide_pandas() -> None:
    """Hide pandas from Gapwatch and pyarrow for the rest of this process."""
    sys.meta_path.insert(0, PandasHider)


def _importer() -> str:
    """Return the top-level package of the innermost Python function that imports, empty for none."""
    frame = sys._getframe(2)
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != "importlib" and not frame.f_code.co_filename.startswith("<frozen importlib"):
            return package
        frame = frame.f_back  # type: ignore[assignment]
    return ""
