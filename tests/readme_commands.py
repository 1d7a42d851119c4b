"""The shell commands of a README, as a reader would copy them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.paths import ROOT

_PROGRAMS = ("gapwatch", "python", "pip", "pytest", "docker", "deploy/", "tests/", ".ci/")


@dataclass(frozen=True)
class Command:
    """One command.

    Attributes:
        readme: Path of the README, from the root.
        line: Where it stands there.
        text: As it is written, continuation lines joined, without its comment.
    """

    readme: str
    line: int
    text: str


def readmes() -> list[Path]:
    """Return the READMEs and documents of the repository, not of environments that lie in it."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for folder in ("scorers", "sinks", "streams", "design", "deploy", "tests"):
        found += sorted((ROOT / folder).rglob("README.md"))
    return found


def commands_of(readme: Path) -> list[Command]:
    """Return the commands of all blocks of code, fenced or indented, in their order."""
    name = str(readme.relative_to(ROOT))
    return [Command(name, line, text) for line, text in _joined(_code_lines(readme.read_text(encoding="utf-8")))]


def synopses_of(readme: Path) -> list[str]:
    """Return what is said of `gapwatch` in running text and tables: `gapwatch gaps --store S [--metric M]`."""
    prose = re.sub(r"^```.*?^```", "", readme.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return [code for code in re.findall(r"`([^`\n]+)`", prose) if code.startswith("gapwatch ")]


def _code_lines(text: str) -> Iterator[tuple[int, str]]:
    fenced, shell, indented, blank = False, False, False, True
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced, shell = not fenced, line[3:].strip() in ("", "sh", "bash", "shell", "console")
            indented = False
        elif fenced:
            if shell:
                yield number, line
        elif line.startswith("    ") and (blank or indented):
            indented = True
            yield number, line.strip()
        else:
            indented = False
        blank = not line.strip()


def _joined(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    start, text = 0, ""
    for number, line in lines:
        if not text and not line.startswith(_PROGRAMS):
            continue
        start = start if text else number
        text += " " + line.strip().removesuffix("\\").strip() if text else line.removesuffix("\\").strip()
        if not line.rstrip().endswith("\\"):
            yield start, re.sub(r"\s{2,}#.*$", "", text)
            text = ""
