"""What git tracks is read, whatever `.gitignore` says: git itself is the oracle."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapwatch.design.source.scan import scan_repository
from gapwatch.design.source.tracked_files import tracked_files
from tests.design.source_tree import write_tree

FILES = {
    "papersolver.py": "x = 1\n",
    "papers_old.py": "x = 2\n",
    "made/kept.py": "x = 3\n",
    "made/more/left.py": "x = 4\n",
    "a_name_of_nine.py": "",
    "größe/ä.py": "",
}


def _git(root: Path, *words: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.example", *words]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, timeout=20).stdout


def _repository(root: Path, version: int) -> Path:
    write_tree(root, {**FILES, ".gitignore": "papers*\nmade/\n"})
    _git(root, "init", "-q")
    _git(root, "add", "--all")
    _git(root, "add", "--force", "papersolver.py", "made/kept.py")
    _git(root, "update-index", "--index-version", str(version))
    return root


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_index_is_read_as_git_reads_it(tmp_path: Path, version: int) -> None:
    root = _repository(tmp_path / "app", version)
    if version == 3:
        # Only an entry with further flags makes git write version 3.
        _git(root, "update-index", "--skip-worktree", "papersolver.py")

    listed = _git(root, "ls-files", "-z").rstrip("\0").split("\0")
    assert tracked_files(root) == set(listed)
    assert tracked_files(root / "made") == {"kept.py"}


def test_tracked_files_are_read_and_other_ignored_ones_are_not(tmp_path: Path) -> None:
    scan = scan_repository(_repository(tmp_path / "app", 2))

    assert {f.path for f in scan.files} == {"papersolver.py", "made/kept.py", "a_name_of_nine.py", "größe/ä.py"}
    assert {s.path for s in scan.skipped} == {"papers_old.py", "made/more"}


def test_without_git_the_rules_alone_hold(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "app", {**FILES, ".gitignore": "papers*\nmade/\n"})

    assert {f.path for f in scan_repository(root).files} == {"a_name_of_nine.py", "größe/ä.py"}


@given(junk=st.binary(max_size=300), count=st.integers(0, 2**32 - 1), version=st.integers(0, 5))
def test_a_broken_index_ends_nothing(
    tmp_path_factory: pytest.TempPathFactory, junk: bytes, count: int, version: int
) -> None:
    root = tmp_path_factory.mktemp("r")
    (root / ".git").mkdir()
    head = b"DIRC" + version.to_bytes(4, "big") + count.to_bytes(4, "big")
    (root / ".git/index").write_bytes(head + junk)

    assert isinstance(tracked_files(root), frozenset)
