"""Rules of `.gitignore` files, as far as they decide whether a path is source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

#: Most bytes of an ignore file that are read.
_MAX_BYTES = 100_000
_MAX_STARS = 8


@dataclass(frozen=True)
class _Rule:
    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool


@dataclass(frozen=True)
class IgnoreRules:
    """Rules in force in one folder; the last rule that matches decides.

    Attributes:
        rules: Rules of the folders above first.
    """

    rules: tuple[_Rule, ...] = ()

    def with_file(self, file: Path, folder: str) -> IgnoreRules:
        """Return these rules with those of a file added.

        Args:
            file: The `.gitignore`; one that cannot be read adds nothing.
            folder: Its folder relative to the root, with `/`; empty for the root.
        """
        if file.is_symlink():
            return self
        try:
            text = file.read_bytes()[:_MAX_BYTES].decode("utf-8", "replace")
        except OSError:
            return self
        made = [rule for line in text.splitlines() if (rule := _rule(line, folder)) is not None]
        return IgnoreRules((*self.rules, *made))

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Return whether a path is ignored.

        Args:
            path: Relative to the root; its folders must have been checked before.
            is_folder: Whether the path is a folder.
        """
        for rule in reversed(self.rules):
            if (is_folder or not rule.folders_only) and rule.pattern.fullmatch(path):
                return not rule.negated
        return False


def _rule(line: str, folder: str) -> _Rule | None:
    text = line.rstrip()
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text.removeprefix("!").removeprefix("\\")
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    text = text.lstrip("/")
    # Many wildcards in one rule would take a backtracking matcher a minute for each path; no ignore file needs them.
    if not text or text.count("*") > _MAX_STARS:
        return None
    prefix = re.escape(f"{folder}/") if folder else ""
    middle = "" if anchored else "(?:.*/)?"
    try:
        return _Rule(re.compile(f"{prefix}{middle}{_translate(text)}", re.DOTALL), negated, folders_only)
    except re.error:
        return None


def _translate(text: str) -> str:
    out, i = [], 0
    while i < len(text):
        if text.startswith("**/", i):
            out.append("(?:[^/]*/)*")
            i += 3
        elif text.startswith("**", i):
            out.append(".*")
            i += 2
        elif text[i] == "*":
            # `[^/]*` cannot match beyond a folder, and one is enough for a run of stars: no backtracking between them.
            out.append("[^/]*" if not (out and out[-1] == "[^/]*") else "")
            i += 1
        elif text[i] == "?":
            out.append("[^/]")
            i += 1
        elif text[i] == "[" and (end := text.find("]", i + 2)) > 0:
            body = text[i + 1 : end].replace("\\", "\\\\")
            out.append(f"[{'^' + body[1:] if body.startswith('!') else body}]")
            i = end + 1
        else:
            out.append(re.escape(text[i]))
            i += 1
    return "".join(out)
