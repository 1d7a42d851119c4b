"""Difference of two designs: changed code is told from moved code, new code from regrouped code."""

from __future__ import annotations

from pathlib import Path

from gapwatch.design.reports.code_texts import CodeTexts
from gapwatch.design.reports.diff import DesignDiff, compare
from gapwatch.design.reports.output import diff_text
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.rag_run import APP
from tests.design.source_tree import write_tree

#: An application of two files, its prompt in a third one.
SMALL = {
    "prompts.py": 'ANSWER = """Answer the question from the context and from nothing else: {context}"""\n',
    "asking.py": (
        "import openai\nfrom prompts import ANSWER\n\n\nclass Asker:\n"
        "    def ask(self, question, context):\n"
        "        prompt = ANSWER.format(context=context)\n"
        '        return openai.chat.completions.create(model="m", messages=[prompt, question])\n'
    ),
    "fetching.py": (
        "import requests\n\n\ndef fetch(url):\n    try:\n        return requests.get(url, timeout=3).text\n"
        '    except requests.RequestException:\n        return ""\n'
    ),
    "main.py": (
        "from asking import Asker\nfrom fetching import fetch\n\n\ndef main(url, question):\n"
        "    return Asker().ask(question, fetch(url))\n"
    ),
}


def _compared(tmp_path: Path, old: dict[str, str], new: dict[str, str]) -> DesignDiff:
    scans = [scan_repository(write_tree(tmp_path / side, files)) for side, files in (("old", old), ("new", new))]
    designs = [run_design(scan) for scan in scans]
    texts = [CodeTexts(scan, made) for scan, made in zip(scans, designs, strict=True)]
    return compare(designs[0], designs[1], texts[0], texts[1])


def _app(**changes: tuple[str, str]) -> dict[str, str]:
    files = {f"rag_app/{p.name}": p.read_text() for p in APP.glob("*.py")}
    for name, (old, fresh) in changes.items():
        path = f"rag_app/{name}.py"
        assert old in files[path]
        files[path] = files[path].replace(old, fresh)
    return files


def _small(**changes: tuple[str, str]) -> dict[str, str]:
    files = dict(SMALL)
    for name, (old, fresh) in changes.items():
        assert old in files[f"{name}.py"]
        files[f"{name}.py"] = files[f"{name}.py"].replace(old, fresh)
    return files


def test_equal_code_makes_no_metric_stale(tmp_path: Path) -> None:
    found = _compared(tmp_path, _app(), _app())

    assert not found.stale
    assert not found.moved
    assert not found.unmonitored
    assert diff_text(found) == f"No code of the {len(found.unchanged)} metrics changed.\n"


#: Metrics of the search of the application.
_OF_SEARCH = {"passage_index_passages_found", "passage_index_passages_bear_on_query"}


def test_a_changed_function_makes_its_metrics_stale_and_no_others(tmp_path: Path) -> None:
    found = _compared(tmp_path, _app(), _app(retrieval=("limit: int = 3", "limit: int = 4")))

    assert {s.metric for s in found.stale} == _OF_SEARCH
    assert {s.verdict for s in found.stale} == {"changed"}
    assert not found.moved


def test_lines_that_only_moved_are_not_stale(tmp_path: Path) -> None:
    found = _compared(tmp_path, _app(), _app(retrieval=("import re\n", "# a comment\nimport re\n")))

    assert not found.stale
    assert {m.metric for m in found.moved} == _OF_SEARCH
    assert "rag_app/retrieval.py:33 is now rag_app/retrieval.py:34" in found.moved[0].reasons


def test_comments_and_layout_are_no_change(tmp_path: Path) -> None:
    laid_out = (
        "        return requests.get(url, timeout=3).text\n",
        "        # Three seconds.\n        return requests.get(\n            url, timeout=3,\n        ).text\n",
    )
    found = _compared(tmp_path, _small(), _small(fetching=laid_out))

    assert not found.stale
    assert not found.moved


def test_a_changed_decorator_is_a_change_of_its_function(tmp_path: Path) -> None:
    head = "import requests\nfrom tenacity import retry, stop_after_attempt\n\n\n"
    old = _small(fetching=("import requests\n\n\n", f"{head}@retry(stop=stop_after_attempt(3))\n"))
    found = _compared(tmp_path, old, {**old, "fetching.py": old["fetching.py"].replace("attempt(3)", "attempt(5)")})

    assert found.stale
    assert {s.verdict for s in found.stale} == {"changed"}
    assert all("fetching.fetch changed" in s.reasons[0] for s in found.stale)


def test_a_prompt_in_another_file_that_changed_makes_its_judge_stale_and_no_count(tmp_path: Path) -> None:
    found = _compared(tmp_path, _small(), _small(prompts=("and from nothing else", "or from what you know")))

    assert [s.metric for s in found.stale if s.metric.endswith("_rests_on_context")]
    assert not [s.metric for s in found.stale if s.metric.endswith("_model_latency")]
    assert {reason for s in found.stale for reason in s.reasons} == {"prompt ANSWER changed (prompts.py:1)"}


def test_a_file_that_was_moved_leaves_its_metrics_as_they_are_and_is_nothing_new(tmp_path: Path) -> None:
    new = {name: text.replace("from fetching", "from web.pages") for name, text in SMALL.items()}
    new["web/__init__.py"], new["web/pages.py"] = "", new.pop("fetching.py")
    found = _compared(tmp_path, _small(), new)

    assert not found.stale
    assert any("fetching.py:4 is now web/pages.py:4" in m.reasons for m in found.moved)
    assert not found.unmonitored


def test_a_removed_function_leaves_its_metrics_gone(tmp_path: Path) -> None:
    found = _compared(tmp_path, _app(), _app(service=("def keep(", "def preserve(")))

    gone = next(s for s in found.stale if s.metric == "question_service_swallowed_errors")
    assert gone.reasons[0] == "rag_app.service.QuestionService.keep is gone"


def test_a_pattern_that_is_left_out_leaves_its_metrics_gone(tmp_path: Path) -> None:
    handler = (
        "    try:\n        return requests.get(url, timeout=3).text\n"
        '    except requests.RequestException:\n        return ""\n'
    )
    found = _compared(tmp_path, _small(), _small(fetching=(handler, "    return requests.get(url, timeout=3).text\n")))

    assert {s.metric: s.verdict for s in found.stale} == {"fetching_failure_answers": "gone"}


def test_a_new_pattern_is_reported_as_unmonitored(tmp_path: Path) -> None:
    tried = (
        "def fetch(url)",
        "import tenacity\n\n\n@tenacity.retry(stop=tenacity.stop_after_attempt(3))\ndef fetch(url)",
    )
    found = _compared(tmp_path, _small(), _small(fetching=tried))

    assert {(u.what, u.name, u.where) for u in found.unmonitored} == {("pattern", "has_retry_loop", "fetching.py:7")}
    assert any(metric.endswith("retries_exhausted") for u in found.unmonitored for metric in u.metrics)
    assert "pattern has_retry_loop (fetching.py:7)" in diff_text(found)


def test_a_new_call_to_a_model_is_a_new_tier(tmp_path: Path) -> None:
    judge = (
        "import openai\n\n\ndef grade(answer):\n"
        '    return openai.chat.completions.create(model="m", messages=["Grade this from one to five", answer])\n'
    )
    new = {**SMALL, "grading.py": judge}
    new["main.py"] = SMALL["main.py"].replace("import fetch\n", "import fetch\nfrom grading import grade\n")
    new["main.py"] = new["main.py"].replace("return Asker()", "return grade(Asker()").rstrip() + ")\n"
    found = _compared(tmp_path, _small(), new)

    assert ("tier", "grading.py:4-5") in {(u.what, u.where) for u in found.unmonitored}
