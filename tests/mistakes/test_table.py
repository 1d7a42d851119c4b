"""First mistakes, each with the sentence that names it and the exit status; none shows a traceback or leaves a file.

A command is one text as it is typed. `says` stands in what it prints on standard error.
"""

from __future__ import annotations

import io
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gapwatch_command import gapwatch

REPLAY = "--portfolio p.yaml --store new.duckdb"
KAFKA = "--brokers 127.0.0.1:1"
RUN = f"run {KAFKA} --portfolio p.yaml"

FILES = [
    (f"replay missing.jsonl {REPLAY}", 2, "missing.jsonl: no such file"),
    (f"replay folder {REPLAY}", 2, "folder: is a directory; give the files in it"),
    (f"replay empty.jsonl {REPLAY}", 1, "empty.jsonl is empty: it holds no record"),
    (f"replay t.csv {REPLAY}", 1, "t.csv is CSV; write each trace as one JSON object on one line"),
    (f"replay array.json {REPLAY}", 1, "is a JSON array, not one object a line; turn it into lines: jq -c '.[]'"),
    (f"replay p.yaml {REPLAY}", 1, "p.yaml is a portfolio, not a file of traces"),
    (f"replay s.duckdb {REPLAY}", 1, "s.duckdb is a binary file; write each trace as"),
    (f"replay other.jsonl {REPLAY}", 1, "the traces name 'suport' (3), the portfolio names 'support'; correct"),
    (f"replay - {REPLAY}", 2, "standard input has no name; give it one with --source"),
    (f"replay good.jsonl t.csv {REPLAY} --source x", 2, "--source is for a single file"),
    (f"replay good.jsonl folder/../good.jsonl other.jsonl {REPLAY} --source x", 2, "--source is for a single file"),
    ("check p.yaml --against t.csv", 1, "t.csv is CSV"),
    ("check p.yaml --against other.jsonl", 1, "every trace in other.jsonl is of another pipeline"),
    ("check p.yaml --against missing.jsonl", 2, "missing.jsonl: no such file"),
    (f"publish t.csv {KAFKA}", 1, "t.csv is CSV"),
    (f"publish missing.jsonl {KAFKA}", 2, "missing.jsonl: no such file"),
]  # fmt: skip

PORTFOLIOS = [
    ("replay good.jsonl --store new.duckdb --portfolio missing.yaml", 2, "missing.yaml: cannot be read: No such"),
    ("replay good.jsonl --store new.duckdb --portfolio folder", 2, "folder: cannot be read: Is a directory"),
    ("replay good.jsonl --store new.duckdb --portfolio broken.yaml", 2, "broken.yaml:2: not YAML: "),
    ("replay good.jsonl --store new.duckdb --portfolio list.yaml", 2, "list.yaml: a map is expected"),
    ("replay good.jsonl --store new.duckdb --portfolio nothing.yaml", 2, "the file is empty; write gapwatch: 1"),
    ("replay good.jsonl --store new.duckdb --portfolio bytes.yaml", 2, "bytes.yaml:1: not UTF-8"),
    ("replay good.jsonl --store new.duckdb --portfolio good.jsonl", 2, "good.jsonl:2: not YAML"),
    (f"replay good.jsonl {REPLAY} --portfolio p.yaml", 2, "two portfolios claim the pipeline 'support'"),
    ("check misspelt.yaml", 2, "purpose"),
    ("check unknown_component.yaml", 2, "answer"),
    ("check missing.yaml", 2, "cannot be read: No such file or directory"),
    ("check p.yaml --facts missing.yaml", 2, "cannot be read: No such file or directory"),
    ("rules missing.yaml --out folder", 2, "missing.yaml: cannot be read: No such file"),
    ("rules p.yaml --out /proc/x", 2, "/proc/x cannot be written: No such file or directory; give another with"),
    ("dashboards p.yaml --out /proc/x", 2, "/proc/x cannot be written: No such file or directory; give another with"),
]

STORES = [
    ("replay good.jsonl --portfolio p.yaml --store folder", 2, "folder is a directory; name the file of the store"),
    ("replay good.jsonl --portfolio p.yaml --store no/s.duckdb", 2, "the directory no of the store s.duckdb does"),
    ("replay good.jsonl --portfolio p.yaml --store junk.duckdb", 2, "junk.duckdb is not a store of Gapwatch: it is"),
    ("replay good.jsonl --portfolio p.yaml --store foreign.duckdb", 2, "it is the DuckDB file of another program"),
    ("replay good.jsonl --portfolio p.yaml --store good.jsonl", 2, "good.jsonl is not a store of Gapwatch: it is"),
    ("rates --store missing.duckdb", 2, "there is no store missing.duckdb; `gapwatch replay` creates one"),
    ("rates --store folder", 2, "folder is a directory; name the file of the store, such as folder/gapwatch.duckdb"),
    ("rates --store junk.duckdb", 2, "junk.duckdb is not a store of Gapwatch"),
    ("rates --store empty.duckdb", 2, "empty.duckdb is empty and not a store of Gapwatch"),
    ("gaps --store foreign.duckdb", 2, "it is the DuckDB file of another program"),
    ("ledger --store p.yaml", 2, "p.yaml is not a store of Gapwatch: it is not a DuckDB file"),
    ("rates --store http://127.0.0.1:1", 2, "nothing answers at http://127.0.0.1:1 (Connection refused)"),
    ("rates --store ftp://x", 2, "--store 'ftp://x' is not an address; write http://HOST:9464"),
    ("gaps --store s.duckdb --metric answer_parse", 2, "the store has no such metric; did you mean answer_parses?"),
    ("rates --store s.duckdb --component answr", 2, "the store has no such component; did you mean answer?"),
    ("explain 12345678 --store s.duckdb", 2, "no alert or incident '12345678' in this store; "),
    ("history SELEC --store s.duckdb", 2, "the query is refused: Parser Error: syntax error at or near"),
    ("history 'SELECT * FROM gap' --store s.duckdb", 2, 'Table with name gap does not exist!\nDid you mean "gaps"?'),
    ("snapshot --store s.duckdb --name ../x", 2, "'../x' is not a valid name of a snapshot; use letters"),
    ("judge rerun x --store s.duckdb", 2, "'x' is not the place of a row; write topic/partition/offset/span/metric"),
]  # fmt: skip

OPTIONS = [
    ("raplay good.jsonl", 2, "No such command 'raplay'. Did you mean `replay`?"),
    ("judge rnu", 2, "No such command 'rnu'. Did you mean `run`?"),
    ("design queston", 2, "No such folder or command 'queston'. Did you mean `questions`?"),
    ("design missing", 2, "missing: no such folder; give the path of a repository"),
    ("design folder", 2, "folder: no Python file in this folder; give the folder of the pipeline's source code"),
    ("replay good.jsonl", 2, "Missing option '--portfolio'"),
    ("replay good.jsonl --portfolo p.yaml --store new.duckdb", 2, "No such option: --portfolo Did you mean"),
    ("rates", 2, "Missing option '--store' (env var: 'GAPWATCH_STORE')"),
    ("rates --store s.duckdb --since yesterday", 2, "--since 'yesterday' is not a time; write 15m, 2h, 7d, or"),
    ("rates --store s.duckdb --since 0001-01-01T00:00+14:00", 2, "is before year 1 or after year 9999 in UTC"),
    (f"consume {KAFKA} --from 9999-12-31T23:59-14:00", 2, "--from '9999-12-31T23:59-14:00' is before year 1 or"),
    ("annotate x --store s.duckdb --at 0001-01-01T00:00+14:00", 2, "'0001-01-01T00:00+14:00' is not a time"),
    *((f"annotate x --store s.duckdb --by {by}", 2, "the annotation has no author") for by in ("YOU", "TODO", "?")),
    ("override t/0/0/0/m --outcome pass --why x --store s.duckdb --by YOU", 2, "the override has no author; give your"),
    ("gaps --store s.duckdb --since 2026-13-01", 2, "--since '2026-13-01' is not a time"),
    ("gaps --store s.duckdb --outcome failed", 2, "'failed' is not one of 'pass', 'warn', 'fail'"),
    (f"replay good.jsonl {REPLAY} --judges missing.yaml", 2, "the judge settings missing.yaml cannot be read: No"),
    (f"replay good.jsonl {REPLAY} --judges p.yaml", 2, "p.yaml is a portfolio; the settings of judges are another"),
]  # fmt: skip

KAFKA_OPTIONS = [
    ("run --portfolio p.yaml --store new.duckdb", 2, "no Kafka brokers given; set GAPWATCH_KAFKA_BROKERS=HOST:PORT,"),
    ("publish good.jsonl", 2, "no Kafka brokers given"),
    ("consume", 2, "no Kafka brokers given"),
    ("backfill --store s.duckdb --from 1h", 2, "no Kafka brokers given"),
    (f"run {KAFKA}", 2, "--store and --portfolio are required, except with --role judge"),
    ("run --brokers nowhere --portfolio p.yaml --store new.duckdb", 2, "brokers: 'nowhere' is not HOST:PORT"),
    (f"{RUN} --store new.duckdb --listen nowhere", 2, "--listen 'nowhere' is not an address and port; write"),
    (f"{RUN} --store new.duckdb --keep 30", 2, "--keep '30' is not a span of time; write 30d, 12h or 10m"),
    (f"{RUN} --store new.duckdb --webhook nowhere", 2, "--webhook is not a valid address; write https://host/path"),
    (f"{RUN} --store junk.duckdb", 2, "junk.duckdb is not a store of Gapwatch"),
    (f"run {KAFKA} --portfolio missing.yaml --store new.duckdb", 2, "missing.yaml: cannot be read"),
    (f"run {KAFKA} --role judge", 2, "--role judge requires --judges"),
    (f"run {KAFKA} --role juge", 2, "'juge' is not one of 'all', 'score,keep', 'judge'"),
    (f"consume {KAFKA} --from soon", 2, "--from 'soon' is not a time; write"),
    (f"publish good.jsonl {KAFKA} --rate fast", 2, "'fast' is not a rate; write records per second, such as 500/s"),
    (f"publish good.jsonl {KAFKA} --password-file missing", 2, "--password-file missing cannot be read"),
    (f"publish good.jsonl {KAFKA} --username x", 2, "SASL_PLAINTEXT needs a username and a password"),
    (f"publish good.jsonl {KAFKA} --ca-file missing", 2, "ca_file: the file 'missing' does not exist"),
    (f"publish good.jsonl {KAFKA} --ca-file good.jsonl", 2, "the certificates cannot be read (good.jsonl)"),
    (f"backfill {KAFKA} --store missing.duckdb --from 2h", 2, "there is no store missing.duckdb"),
    (f"backfill {KAFKA} --store s.duckdb --from 1h --to 2h", 2, "is not before --to"),
]  # fmt: skip

TABLE = [*FILES, *PORTFOLIOS, *STORES, *OPTIONS, *KAFKA_OPTIONS]


@pytest.mark.parametrize(("command", "status", "says"), TABLE, ids=[command for command, _, _ in TABLE])
@pytest.mark.usefixtures("folder")
def test_a_mistake_has_its_sentence_and_status(command: str, status: int, says: str) -> None:
    ran = gapwatch(*shlex.split(command))

    printed = " ".join(ran.err.split())
    assert " ".join(says.split()) in printed
    assert ran.status == status
    assert "Traceback" not in ran.err + ran.out
    assert "secret" not in ran.err


def test_standard_input_without_a_trace_is_no_success(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = b'{"id": 1}\n' * 3 + (folder / "other.jsonl").read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines)))
    store = tmp_path / "new.duckdb"
    ran = gapwatch("replay", "-", "--source", "in", "--portfolio", "p.yaml", "--store", store, "--quiet")

    assert (ran.status, ran.out) == (1, "")
    assert ran.err == (
        f"gapwatch: -: not one of the 6 records could be scored: 3 not a trace (gapwatch dead-letters --store {store} "
        "says why), 3 of another pipeline than the portfolio's, 'support'\n"
    )


def test_a_store_that_another_process_holds_is_named_with_its_holder(folder: Path) -> None:
    code = "import duckdb, sys; con = duckdb.connect('s.duckdb'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        ran = gapwatch("replay", "good.jsonl", "--portfolio", "p.yaml", "--store", "s.duckdb", "--quiet")
        holder.stdin.close()
        holder.wait(60)

    assert ran.status == 2
    assert str(holder.pid) in ran.err
