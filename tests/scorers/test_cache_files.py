"""A file of the cache is read whole or not at all, and a cache that cannot be written stops nothing."""

import hashlib
from pathlib import Path

import pytest

from gapwatch.scorers.cache_files import cache_folder, read_cached, write_cached


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "gapwatch"


def test_what_was_written_is_read_and_replaced(folder: Path):
    assert read_cached("a") is None
    for content in (b"one", b"", b"x" * 100_000):
        write_cached("a", content)
        assert read_cached("a") == content
    assert [file.name for file in folder.iterdir()] == ["a"]


@pytest.mark.parametrize(
    "broken",
    [
        lambda data: data[:-1],
        lambda data: data[:10],
        lambda data: data[:-1] + b"?",
        lambda _data: hashlib.sha256(b"not packed").digest() + b"not packed",
    ],
)
def test_a_file_that_is_not_whole_is_as_good_as_none(folder: Path, broken):
    write_cached("a", b"content")
    (folder / "a").write_bytes(broken((folder / "a").read_bytes()))
    assert read_cached("a") is None


def test_a_cache_that_cannot_be_written_is_done_without(folder: Path):
    folder.parent.write_text("a file, no folder")
    write_cached("a", b"content")
    assert read_cached("a") is None


def test_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch):
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(RuntimeError):
        cache_folder()
    write_cached("a", b"content")
    assert read_cached("a") is None
