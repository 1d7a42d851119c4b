"""Compiles the reading and mapping of OTLP spans with mypyc, where GAPWATCH_COMPILED=1 is set while a wheel is built.

    GAPWATCH_COMPILED=1 pip install '.[otlp]'

It needs a C compiler. The modules are the same and give the same bytes; without the variable the wheel is pure Python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = ("scorers/gapwatch", "streams/gapwatch")
#: Folders whose modules are compiled.
COMPILED = ("streams/otlp/assembly", "streams/otlp/decoding", "streams/otlp/mapping")
#: Modules that stay Python: they declare classes that a library makes at import.
PLAIN = ("__init__.py", "json_splitting.py")
GROUP = "gapwatch_otlp"

_SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import setup
options = ["--ignore-missing-imports", "--follow-imports=silent", "--namespace-packages", "--explicit-package-bases"]
setup(
    name="compiled", packages=[], script_args=["build_ext", "--build-lib", "made"],
    ext_modules=mypycify([*options, *sys.argv[1:]], opt_level="3", group_name={group!r}),
)
"""


def compile_modules(root: Path, folder: Path) -> list[Path]:
    """Compile the modules for this interpreter.

    Args:
        root: Root of the source tree.
        folder: Folder for the result; the files lie in it as on the import path.

    Returns:
        The compiled files, relative to the folder.

    Raises:
        RuntimeError: mypyc or the C compiler failed.
    """
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for source in SOURCES:
            shutil.copytree(root / source, work / "gapwatch", dirs_exist_ok=True)
        modules = sorted(
            path.relative_to(work).as_posix()
            for part in COMPILED
            for path in (work / "gapwatch" / part).glob("*.py")
            if path.name not in PLAIN
        )
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", _SETUP.format(group=GROUP), *modules],
            cwd=work, capture_output=True, text=True, check=False, env={**os.environ, "MYPYPATH": "."},
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"the modules cannot be compiled:\n{(done.stdout + done.stderr)[-4_000:]}")
        shutil.copytree(work / "made", folder, dirs_exist_ok=True)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return sorted(path.relative_to(folder) for path in folder.rglob(f"*{suffix}"))


class CompiledModules(BuildHookInterface[Any]):
    """Adds the compiled modules to a wheel."""

    _folder: tempfile.TemporaryDirectory[str]

    def _is_wanted(self) -> bool:
        return self.target_name == "wheel" and os.environ.get("GAPWATCH_COMPILED") == "1"

    def dependencies(self) -> list[str]:
        """Return what the build needs beside hatchling."""
        return ["mypy>=1.13", "setuptools>=75"] if self._is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile before the files of the wheel are collected."""
        if not self._is_wanted() or version == "editable":
            return
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        for path in compile_modules(Path(self.root), folder):
            build_data["force_include"][str(folder / path)] = path.as_posix()
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the compiled files; they are in the wheel."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
