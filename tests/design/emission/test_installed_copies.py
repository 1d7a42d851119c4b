"""`gapwatch instrument` finds functions of a copy of the designed code, and says where it finds none."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gapwatch.design.emission.interpreter.listed_code import ListedFunctions, imported_path
from tests.design.emission.watched_programs import collector, planned, python_with_events, run_watched, write_plan
from tests.design.source_tree import write_tree

PYTHON = python_with_events()
needs_events = pytest.mark.skipif(PYTHON is None, reason="no Python of 3.12 or newer on this machine")

_SHOP = "def answer(q):\n    return q\n"


def _found(path: Path, *listed: str, sha: str = "") -> list[str]:
    """Return the designed file that a function of a copy is taken for."""
    scope: dict[str, object] = {}
    exec(compile(_SHOP, str(path), "exec"), scope)
    plan = {"emit": [planned("answer", path=end) for end in listed], "files": dict.fromkeys(listed[:1], sha)}
    watched = ListedFunctions(plan).find(scope["answer"].__code__)  # type: ignore[attr-defined]
    return [watched.plan["path"]] if watched is not None else []


def test_a_module_is_found_by_its_path_below_the_folder_that_it_is_imported_from(tmp_path: Path) -> None:
    write_tree(tmp_path, {"lib/shop/__init__.py": "", "lib/shop/answers.py": _SHOP})
    inside = tmp_path / "lib/shop/answers.py"

    assert imported_path(inside) == "shop/answers.py"
    assert imported_path(tmp_path / "site-packages/a/b/c.py") == "a/b/c.py"
    assert _found(inside, "src/shop/answers.py") == ["src/shop/answers.py"]
    assert _found(inside, "src/other/answers.py") == []
    assert _found(inside, "answers.py") == ["answers.py"]  # the file itself, as before


def test_of_modules_of_one_name_the_one_with_the_same_content_is_meant(tmp_path: Path) -> None:
    write_tree(tmp_path, {"lib/shop/__init__.py": "", "lib/shop/answers.py": _SHOP, "lib/app.py": _SHOP})
    sha = hashlib.sha256(_SHOP.encode()).hexdigest()
    both = ("a/shop/answers.py", "b/shop/answers.py")

    assert _found(tmp_path / "lib/shop/answers.py", *both) == []
    assert _found(tmp_path / "lib/shop/answers.py", *both, sha=sha) == [both[0]]
    assert _found(tmp_path / "lib/app.py", "src/app.py") == []
    assert _found(tmp_path / "lib/app.py", "src/app.py", sha=sha) == ["src/app.py"]


@needs_events
def test_an_installed_copy_sends_spans_and_other_code_is_told_at_the_end(tmp_path: Path) -> None:
    write_tree(tmp_path / "site", {"shop/__init__.py": "", "shop/answers.py": _SHOP})
    plan = write_plan(tmp_path / "design", [planned("answer", path="src/shop/answers.py")])
    call = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); from shop.answers import answer; "
    with collector() as found:
        used = run_watched(plan, [str(PYTHON), "-c", f"{call}answer(1)"], found.url)
        idle = run_watched(plan, [str(PYTHON), "-c", call], found.url)

    assert [span.name for span in found.spans] == ["answer"]
    assert used.stderr == ""
    assert "entered none of the 1 functions of its design, such as answer of src/shop/answers.py" in idle.stderr
    assert idle.returncode == 0
