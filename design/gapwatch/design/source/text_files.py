"""Reads text files of a repository that code names: templates, plain texts, and the entries of YAML, TOML and JSON."""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gapwatch.design.source.regular_file import read_regular
from gapwatch.design.source.scan import KEYED_SUFFIXES
from gapwatch.design.source.secret_texts import without_secrets

#: Larger files hold data and no prompts, in bytes.
_MAX_BYTES = 200_000
#: Deepest nesting of keys that is read.
_MAX_DEPTH = 6
#: Most entries of one file.
_MAX_ENTRIES = 2_000
#: Longest text in code that can be a path, in characters.
_MAX_PATH = 200

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class FileText:
    """A text of a file.

    Attributes:
        path: The file.
        line: First line.
        end: Last line.
        text: The text.
    """

    path: str
    line: int
    end: int
    text: str


#: Settings at the beginning of a file, between two lines of dashes.
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?:[\w-]+:.*\n|[ \t#-].*\n|[ \t]*\n)+?---[ \t]*\n")


#: Folders of what runs keep for the next one.
_LEFT_BY_RUNS = re.compile(r"(^|/)[._]*caches?(_\w+)?/")


class TextFiles:
    """Text files of a repository by the names that code gives them; each is read when it is asked for.

    Args:
        root: The repository.
        paths: Paths relative to it.
    """

    def __init__(self, root: Path, paths: tuple[str, ...]) -> None:
        self._root = root
        # What a run has left behind is no text of the program.
        self._paths = paths = tuple(path for path in paths if not _LEFT_BY_RUNS.search(path))
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        for path in paths:
            name = path.rpartition("/")[2]
            self._by_name[name].append(path)
            self._by_stem[name.rpartition(".")[0]].append(path)
        self._texts: dict[str, str] = {}
        self._entries: dict[str, dict[tuple[str, ...], FileText]] = {}

    def __bool__(self) -> bool:
        return bool(self._paths)

    def named(self, written: str, near: str, is_stem: bool = False) -> list[str]:
        """Return the files that a path in code can mean; several only where it has `*` for a part that varies.

        Args:
            written: Path or end of a path.
            near: Path of the file with the code; of equal names the one nearest to it is meant.
            is_stem: Whether the ending of the file may be missing.
        """
        if not written or len(written) > _MAX_PATH or "\n" in written:
            return []
        parts = [p for p in written.replace("\\", "/").split("/") if p not in ("", ".", "..")]
        if not parts or not parts[-1].strip("*"):
            return []
        if any("*" in part for part in parts):
            joined = "/".join(re.escape(part).replace(r"\*", r"[^/]*") for part in parts)
            wanted = re.compile(rf"(^|/){joined}$")
            return [path for path in self._paths if wanted.search(path)]
        end = "/".join(parts)
        found = [path for path in self._by_name.get(parts[-1], ()) if path == end or path.endswith(f"/{end}")]
        if not found and is_stem:
            stems = ((path, path.rpartition(".")[0]) for path in self._by_stem.get(parts[-1], ()))
            found = [path for path, stem in stems if stem == end or stem.endswith(f"/{end}")]
        return sorted(found, key=lambda path: (-_shared(path, near), path.count("/"), path))[:1]

    def text(self, path: str) -> FileText | None:
        """Return the whole text of a file; None if it is empty, too large, no text or no regular file."""
        if path not in self._texts:
            self._texts[path] = self._read(path)
        text = self._texts[path]
        head = _FRONT_MATTER.match(text) if not self.is_keyed(path) else None
        # The head of a prompty or Markdown file holds its settings.
        body = text[head.end() :] if head is not None and text[head.end() :].strip() else text
        first = text.count("\n", 0, len(text) - len(body)) + 1
        return FileText(path, first, text.count("\n") + 1, body) if body.strip() else None

    def is_keyed(self, path: str) -> bool:
        """Return whether a file holds its texts under keys."""
        return path.rpartition(".")[2].lower() in KEYED_SUFFIXES

    def entries(self, path: str) -> dict[tuple[str, ...], FileText]:
        """Return the texts of a YAML, TOML or JSON file by their keys in lower case; empty for one with errors."""
        if path not in self._entries:
            whole = self.text(path)
            found: dict[tuple[str, ...], FileText] = {}
            if whole is not None:
                read = _yaml_entries if path.endswith(("yaml", "yml")) else _tree_entries
                try:
                    for keys, entry in read(whole):
                        found.setdefault(tuple(key.lower() for key in keys), entry)
                        if len(found) >= _MAX_ENTRIES:
                            break
                except (yaml.YAMLError, ValueError, RecursionError):
                    found = {}
            self._entries[path] = found
        return self._entries[path]

    def _read(self, path: str) -> str:
        try:
            source = read_regular(self._root / path, _MAX_BYTES + 1)
            return without_secrets(source)[0].decode("utf-8") if len(source) <= _MAX_BYTES else ""
        except (OSError, UnicodeDecodeError):
            return ""


def _shared(path: str, near: str) -> int:
    """Return the number of leading folders that two paths share."""
    count = 0
    for a, b in zip(path.split("/")[:-1], near.split("/")[:-1], strict=False):
        if a != b:
            break
        count += 1
    return count


def _yaml_entries(whole: FileText) -> Iterator[tuple[tuple[str, ...], FileText]]:
    pending: list[tuple[tuple[str, ...], Any]] = [((), yaml.compose(whole.text, Loader=_Loader))]
    seen: set[int] = set()
    while pending:
        keys, node = pending.pop()
        if isinstance(node, yaml.ScalarNode):
            if keys and isinstance(node.value, str):
                end = node.end_mark.line + (node.end_mark.column > 0)
                line = node.start_mark.line + 1
                yield keys, FileText(whole.path, line, max(line, end), node.value)
        elif len(keys) < _MAX_DEPTH and id(node) not in seen:
            # An alias is the node that it names: each is read once.
            seen.add(id(node))
            if isinstance(node, yaml.MappingNode):
                pending += [((*keys, str(k.value)), v) for k, v in reversed(node.value)]
            elif isinstance(node, yaml.SequenceNode):
                pending += [((*keys, str(i)), v) for i, v in reversed(list(enumerate(node.value)))]


def _tree_entries(whole: FileText) -> Iterator[tuple[tuple[str, ...], FileText]]:
    """Yield the texts of a TOML or JSON file; their parsers give no lines, so these are looked for."""
    is_toml = whole.path.endswith("toml")
    tree = tomllib.loads(whole.text) if is_toml else json.loads(whole.text)
    pending: list[tuple[tuple[str, ...], Any]] = [((), tree)]
    lines = whole.text.split("\n")
    places = _keys_of(lines, is_toml)
    while pending:
        keys, value = pending.pop()
        if isinstance(value, str) and keys:
            line = _line_of(lines, places, keys, value, is_toml)
            # A text of several lines may begin below its key.
            below = is_toml and lines[line - 1].rstrip().endswith(('"""', "'''"))
            yield keys, FileText(whole.path, line, line + (value.count("\n") + below if is_toml else 0), value)
        elif isinstance(value, dict) and len(keys) < _MAX_DEPTH:
            pending += [((*keys, str(key)), inner) for key, inner in reversed(value.items())]
        elif isinstance(value, list) and len(keys) < _MAX_DEPTH:
            pending += [((*keys, str(i)), inner) for i, inner in reversed(list(enumerate(value)))]


@dataclass(frozen=True)
class _Keys:
    """Lines of a TOML or JSON file by what they begin.

    Attributes:
        keys: Lines by the key that stands there, in order.
        tables: First line of each table of a TOML file, by its name.
    """

    keys: dict[str, list[int]]
    tables: dict[str, int]


_TOML_KEY = re.compile(r"\s*[\"']?([^=]*?)[\"']?\s*=")
_TOML_TABLE = re.compile(r"\s*\[+\s*[\"']?([^\]]*?)[\"']?\s*\]")
_JSON_KEY = re.compile(r"\"((?:[^\"\\]|\\.)*)\"\s*:")


def _keys_of(lines: list[str], is_toml: bool) -> _Keys:
    keys: dict[str, list[int]] = defaultdict(list)
    tables: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if is_toml and (table := _TOML_TABLE.match(line)) is not None:
            tables.setdefault(table[1], number)
        for found in filter(None, [_TOML_KEY.match(line)]) if is_toml else _JSON_KEY.finditer(line):
            keys[found[1]].append(number)
    return _Keys(keys, tables)


def _line_of(lines: list[str], places: _Keys, keys: tuple[str, ...], value: str, is_toml: bool) -> int:
    """Return the line where an entry begins: of its key, with the first words of its text there or just below."""
    start = value.lstrip().split("\n")[0].strip()[:20]
    # A key of a table stands below the head of the table.
    first = places.tables.get(".".join(keys[:-1])) if is_toml and len(keys) > 1 else 1
    for number in places.keys.get(keys[-1], ()):
        if first is not None and number >= first:
            near = " ".join(lines[number - 1 : number + 3])
            if not start or start.replace('"', '\\"') in near or start in near:
                return number
    return 1
