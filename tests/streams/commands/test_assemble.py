"""`gapwatch assemble`, `spans`, and the commands that read files of spans as they read whole traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gapwatch.scorers.command_line import discover_commands
from gapwatch.scorers.loading.load import parse_portfolio
from tests.streams.otlp import captures


def _run(*arguments: str) -> Result:
    name, *rest = arguments
    return CliRunner().invoke(discover_commands()[name].load(), rest)


def test_assemble_writes_whole_traces_and_says_where_each_span_went() -> None:
    done = _run("assemble", captures.path_of("two-services"))
    assert done.exit_code == 0
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert [json.loads(line)["pipeline"] for line in lines] == ["velo-web"] * 5
    assert "5 traces of 35 spans" in done.stderr
    assert "of HTTP, databases and the like" in done.stderr


def test_assemble_reads_several_files_as_one_input(tmp_path: Path) -> None:
    lines = [
        json.dumps({"path": "/v1/traces", "headers": {}, "body": _base64(one.body)}) + "\n"
        for one in captures.requests("oi-openai-rag")
    ]
    files = []
    for number, line in enumerate(lines):
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_text(line)
    done = _run("assemble", "--quiet", *map(str, files))
    assert sorted(done.stdout.encode().splitlines()) == sorted(captures.assembled("oi-openai-rag")[0])


def _base64(body: bytes) -> str:
    import base64

    return base64.b64encode(body).decode()


def test_spans_prints_kinds_coverage_and_models() -> None:
    done = _run("spans", captures.path_of("otel-v2-failover"))
    assert done.exit_code == 0
    line = next(one for one in done.stdout.splitlines() if one.startswith("answer") and " llm " in one)
    assert line.split()[:7] == ["answer", "llm", "7", "2", "0", "%", "0"]
    assert "gpt-4.1-mini-2025-04-14 (2)" in done.stdout


@pytest.mark.parametrize("name", ["vercel7-failover", "lf3-rag-failover", "oi-llama-rag"])
def test_the_start_of_a_portfolio_watches_what_was_found(name: str, tmp_path: Path) -> None:
    pipeline = next(iter(captures.envelopes(name).values()))["pipeline"]
    written = _run("spans", captures.path_of(name), "--write", pipeline).stdout
    assert parse_portfolio(written).pipeline == pipeline
    portfolio = tmp_path / "portfolio.yaml"
    portfolio.write_text(written)
    checked = _run("check", str(portfolio), "--against", captures.path_of(name))
    assert checked.exit_code == 0, checked.output
    assert f"{captures.truth()[name]['traces']} read" in checked.stdout
    failed = sum(call["status"] == "error" for call in captures.steps(name, kind="llm"))
    assert failed == 0 or any(line.split()[-2:] and str(failed) in line.split() for line in checked.stdout.splitlines())


def test_replay_scores_spans_once_however_often_it_runs(tmp_path: Path) -> None:
    portfolio, store = tmp_path / "portfolio.yaml", tmp_path / "s.duckdb"
    portfolio.write_text(_run("spans", captures.path_of("oi-openai-failover"), "--write", "velo-support").stdout)
    for _ in range(2):
        done = _run(
            "replay", captures.path_of("oi-openai-failover"), "--portfolio", str(portfolio), "--store", str(store),
            "--json", "--quiet",
        )  # fmt: skip
        assert done.exit_code == 0, done.output
    assert json.loads(done.stdout.splitlines()[-1])


def test_a_file_without_spans_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.jsonl"
    file.write_text('{"trace_id": "1", "pipeline": "p", "spans": []}\n')
    done = _run("assemble", str(file))
    assert done.exit_code != 0
    assert "holds no spans" in str(done.exception)


def test_a_line_that_was_not_written_to_its_end_costs_itself(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    whole = [
        json.dumps({"path": "/v1/traces", "body": _base64(one.body)}) for one in captures.requests("oi-openai-rag")
    ]
    file.write_text("\n".join([whole[0], '{"path": "/v1/traces", "body": "!"}', *whole[1:], whole[0][:500]]))
    done = _run("assemble", str(file))
    assert done.exit_code == 0
    assert sorted(done.stdout.encode().splitlines()) == sorted(captures.assembled("oi-openai-rag")[0])
    assert "2 lines hold no request" in done.stderr
    assert "line 2: `body` or `value` is no base64" in done.stderr


def test_spans_of_a_spool_are_shown_while_its_run_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "s.duckdb.otlp"
    (folder / "spool").mkdir(parents=True)
    (folder / "traces").mkdir()
    lines = captures.assembled("oi-openai-rag")[0]
    (folder / "traces" / "000000000000.jsonl").write_bytes(b"\n".join(lines) + b"\n" + lines[0][:100])
    of_file, of_spool = _run("spans", captures.path_of("oi-openai-rag")), _run("spans", str(folder))
    assert of_spool.exit_code == 0, of_spool.output
    shown = [line.split() for line in of_spool.stdout.splitlines() if line.strip()]
    assert len(shown) > 4
    assert shown == [line.split() for line in of_file.stdout.splitlines() if line.strip()][: len(shown)]


def test_a_folder_that_is_no_spool_is_refused(tmp_path: Path) -> None:
    done = _run("spans", str(tmp_path))
    assert done.exit_code != 0
    assert "not the spool" in str(done.exception)
