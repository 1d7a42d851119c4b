"""What `.gitignore` files ignore is what git ignores; a hostile rule costs no more than a plain one."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from gapwatch.design.source.ignore import IgnoreRules

#: Names in rules and names on disk that are near each other.
# fmt: off
_PATTERNS = [
    "a", "b", "ab", "foo", "a.py", "b.py", "*.py", "*", "?", "**", "[ab]", "[!a]", "[^a]", "[a-c].py", "a*",
    "*b", "a?b", "a**b", "**b", "a\\*b.py", "\\#x", "\\!x", "#x", "!x", "[a", "a\\", "fo[^o]", "x[]]y",
    "[[:alpha:]].py", "[![:digit:]]*", "[[:nope:]]", "[a-]", "[\\]]*", "a\\/b", "é.py", "[é]*", "??", "a*b*y",
    "*a*b*", "[--0]", "/",
]
# fmt: on
_NAMES = ["a", "b", "ab", "foo", "foo bar", "a.py", "b.py", "axb", "a*b.py", "#x", "!x", "[a", "c.py", "x]y", "é.py"]
_NAMES += ["foo ", "a\\", "-", "]"]
_ENDS = ["", "", "", "", "", " ", "\\ ", "\\  ", "\t", "\r", "/ "]
#: Generated repositories; `GAPWATCH_IGNORE_REPOSITORIES` sets another number.
_REPOSITORIES = int(os.environ.get("GAPWATCH_IGNORE_REPOSITORIES", "20"))


def _line(chance: random.Random) -> str:
    text = "/".join(chance.choice(_PATTERNS) for _ in range(chance.choice([1, 1, 1, 2, 2, 3, 4])))
    text = chance.choice(["", "", "", "/"]) + text + chance.choice(["", "", "", "/"])
    return (
        chance.choice(["", "", "", "!"]) + text.replace("foo", chance.choice(["foo", "foo bar"])) + chance.choice(_ENDS)
    )


def _repository(root: Path, chance: random.Random) -> None:
    folders = [root]
    for _ in range(25):
        path = root.joinpath(*(chance.choice(_NAMES) for _ in range(chance.choice([1, 2, 2, 3]))))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if chance.random() < 0.3 else path.touch()
        except OSError:
            continue  # A file stands where a folder would be.
        folders += [path] if path.is_dir() else []
    for folder in {root, *chance.sample(folders, min(3, len(folders)))}:
        lines = [_line(chance) for _ in range(chance.choice([1, 2, 3, 4]))]
        (folder / ".gitignore").write_bytes("\n".join(lines).encode())


def _ignored_by_git(root: Path, paths: list[str]) -> set[str]:
    subprocess.run(["git", "init", "-q", str(root)], check=True, capture_output=True)
    made = subprocess.run(
        ["git", "-c", "core.excludesFile=/dev/null", "check-ignore", "--no-index", "-z", "--stdin"],
        input="\0".join([*paths, ""]).encode(),
        cwd=root,
        capture_output=True,
    )
    assert made.returncode in (0, 1), made.stderr
    return set(made.stdout.decode().split("\0")) - {""}


def _ignored_by_us(root: Path, folder: str, rules: IgnoreRules, is_ignored: bool) -> set[str]:
    out: set[str] = set()
    rules = rules.with_file(root / folder / ".gitignore", folder)
    for path in (root / folder).iterdir():
        name = str(path.relative_to(root))
        hit = is_ignored or rules.ignores(name, is_folder=path.is_dir())
        out |= {name} if hit else set()
        if path.is_dir():
            out |= _ignored_by_us(root, name, rules, hit)
    return out


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the oracle")
@pytest.mark.parametrize("seed", range(_REPOSITORIES))
def test_paths_are_ignored_as_git_ignores_them(seed: int, tmp_path: Path) -> None:
    _repository(tmp_path, random.Random(seed))
    paths = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*"))

    ours = _ignored_by_us(tmp_path, "", IgnoreRules(), is_ignored=False)

    assert ours == _ignored_by_git(tmp_path, paths)


@pytest.mark.parametrize(
    ("line", "path", "is_ignored"),
    [
        ("foo\\ ", "foo ", True),
        ("foo\\ ", "foo", False),
        ("foo ", "foo", True),
        ("a\\*b.py", "a*b.py", True),
        ("a\\*b.py", "axb.py", False),
        ("a**b", "axxb", True),
        ("x/a**b", "x/a/b", False),
        ("a/**/b", "a/b", True),
        ("a//b", "a/b", False),
        ("\ufeffa", "a", True),
    ],
)
def test_one_rule(line: str, path: str, is_ignored: bool, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(line.encode())

    assert IgnoreRules().with_file(tmp_path / ".gitignore", "").ignores(path, is_folder=False) is is_ignored


@pytest.mark.parametrize(
    "line",
    [
        "*a" * 60 + "b",
        "x/" + "*a" * 60 + "b",
        "**/a/" * 60 + "b",
        "**/*a*/" * 40 + "b",
        "*" * 4000 + "b",
        "[a-z]*" * 100 + "!",
        "a" * 90_000,
        " " * 4000 + "b",
        "a " * 2000,
        "a\\ " * 1300 + " " * 50,
    ],
)
def test_a_hostile_rule_does_not_stop_the_scan(line: str, tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text(line)
    began = time.process_time()

    rules = IgnoreRules().with_file(tmp_path / ".gitignore", "")
    for path in ("a" * 250, "x/" + "a" * 250, "a/" * 500 + "a", "aaa/" * 500 + "a"):
        assert not rules.ignores(path, is_folder=False)

    assert time.process_time() - began < 2
