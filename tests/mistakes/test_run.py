"""Mistakes that `gapwatch run` meets only when it starts: a port in use, a missing extra."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka_broker import KafkaBroker

WITHOUT = """\
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {packages!r} or name.startswith("gapwatch.publisher"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from gapwatch.scorers.command_line import run
for command in {commands!r}:
    print(run(command.split()), flush=True)
"""


@pytest.mark.usefixtures("folder")
def test_without_the_packages_of_an_extra_a_command_says_what_to_install() -> None:
    kafka = "--brokers 127.0.0.1:1"
    commands = [
        f"run {kafka} --portfolio p.yaml --store new.duckdb",
        f"backfill {kafka} --store s.duckdb --from 1h",
        f"publish good.jsonl {kafka}",
        f"consume {kafka}",
        "dashboards p.yaml --out /proc/x",
    ]
    packages = {"aiokafka", "faust", "mode", "aiohttp", "grafana_foundation_sdk"}
    code = WITHOUT.format(packages=packages, commands=commands)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)

    assert done.stdout.split() == ["2"] * 5
    *for_kafka, for_grafana = done.stderr.splitlines()
    assert (
        for_kafka
        == [
            "gapwatch: gapwatch.publisher is not installed, which this command needs for Kafka; "
            "run: pip install 'gapwatch[stream]' gapwatch-publisher"
        ]
        * 4
    )
    assert for_grafana == "gapwatch: Grafana's SDK is missing: pip install 'gapwatch[dashboards]'"


@pytest.mark.kafka
@pytest.mark.slow
def test_a_topic_without_a_trace_of_the_portfolio_is_no_success(
    kafka_broker: KafkaBroker, folder: Path, tmp_path: Path
) -> None:
    topic = kafka_broker.make_topic()
    kafka_broker.produce(topic, [b"not json", *(folder / "other.jsonl").read_bytes().splitlines()])
    code = "import sys; from gapwatch.scorers.command_line import run; sys.exit(run())"
    command = ["run", "--brokers", kafka_broker.address, "--topic", topic, "--portfolio", str(folder / "p.yaml")]
    done = subprocess.run(
        [sys.executable, "-c", code, *command, "--store", "new.duckdb", "--until-caught-up", "--quiet"], cwd=tmp_path,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == (
        f"gapwatch: topic {topic}: not one of the 4 records could be scored: 1 not a trace (gapwatch dead-letters "
        "--store new.duckdb says why), 3 of another pipeline than the portfolio's, 'support'"
    )


def test_a_port_in_use_is_named_with_the_option_to_change(folder: Path, tmp_path: Path) -> None:
    code = "import sys; from gapwatch.scorers.command_line import run; sys.exit(run())"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = ["run", "--brokers", "127.0.0.1:1", "--portfolio", str(folder / "p.yaml"), "--store", "new.duckdb"]
        done = subprocess.run(
            [sys.executable, "-c", code, *command, "--listen", f"127.0.0.1:{port}"], cwd=tmp_path, capture_output=True,
            text=True, timeout=120,
        )  # fmt: skip

    assert done.returncode == 2
    assert f"gapwatch: the API cannot listen on 127.0.0.1 port {port}: another process uses this port" in done.stderr
    assert "choose another one with --listen, such as --listen 127.0.0.1:" in done.stderr
    assert "Traceback" not in done.stderr
