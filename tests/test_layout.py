"""The house: four folders, imports one way, frameworks at the rim, files of a size to read, a test for every module."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
#: What each folder may import, itself apart.
BELOW = {"scorers": set(), "sinks": {"scorers"}, "streams": {"scorers", "sinks"}, "design": {"scorers", "sinks"}}
#: Names that say nothing of what a file gives.
EMPTY_NAMES = re.compile(r"(^|_)(utils?|helpers?|commons?|base|misc|manager|stuff)(_|$)")
#: Lines of a file that is read in one sitting; tests are lists of cases.
LONGEST, LONGEST_TEST = 350, 600

#: Longer files, how long they may be, and why they are still whole. The list may get shorter only: what is here must
#: be over the limit, and within the figure given.
LONG = {
    "scorers/score.py": (460, "one slice from records to tables; its parts share the slice"),
    "streams/publisher.py": (520, "what a pipeline imports, with its docs; the parts lie beside it"),
    "streams/slice_source.py": (400, "the life of a source: its states refer to each other"),
    "streams/faust_slices.py": (430, "all that knows Faust's inside, in one file on purpose"),
    "sinks/live_metrics.py": (360, "what a page tells, kept up in one place"),
    "streams/run.py": (390, "the life of a run: what begins and ends with what"),
    "sinks/live_query.py": (380, "one query beside the keeper: its thread, its limits and its end share a state"),
    "design/lower.py": (765, "one short function a node of the grammar"),
    "design/expressions.py": (625, "one short function a kind of expression"),
    "design/pattern_failure.py": (600, "the patterns of failure share how a handler is read"),
    "design/components.py": (530, "to be parted: finding components, and what they hold"),
    "design/metric_catalog.py": (515, "a catalogue: one entry a metric"),
    "design/metric_critic.py": (495, "one short rule after the other"),
    "design/pattern_io.py": (460, "the patterns of what goes in and out"),
    "design/statements.py": (455, "one short function a kind of statement"),
    "design/calls.py": (430, "the kinds of a call, which fall back on each other"),
    "design/library_calls.py": (400, "one short function a library call that is followed"),
    "deploy/kafka/node.py": (380, "one script: the life of a broker"),
}

#: Modules without a test file of their name, by the test that fails when they are wrong.
TESTED_BY = {
    "scorers/test_command_line.py": "scorers/commands scorers/errors sinks/commands streams/commands design/commands",
    "scorers/test_mutants.py": (
        "scorers/claim_sql scorers/predicate_sql scorers/field_sql scorers/parse_sql scorers/sql_text"
    ),
    "scorers/test_plan_against_reading.py": (
        "scorers/plan scorers/engine scorers/expressions scorers/score scorers/policy scorers/sample scorers/gap_rows "
        "scorers/tick_counts scorers/block scorers/value_histogram"
    ),
    "scorers/test_slicing_laws.py": "scorers/slices scorers/slice_columns scorers/slice_ticks scorers/tables",
    "scorers/test_python_claims_against_reading.py": (
        "scorers/deferred scorers/python_scorer scorers/scorer_host scorers/judge_requests"
    ),
    "scorers/test_portfolio.py": (
        "scorers/facts_file scorers/fact scorers/model_problems scorers/problem_list scorers/component scorers/trace"
    ),
    "contracts/test_claim_cases.py": "scorers/codes scorers/unit_folds scorers/claim scorers/predicate",
    "contracts/test_envelope_cases.py": "scorers/dead_letter",
    "contracts/test_load_cases.py": (
        "scorers/direction scorers/direction_rules scorers/field scorers/metric scorers/metric_reading "
        "scorers/metric_rules scorers/portfolio_draft scorers/portfolio_rules scorers/predicate_arguments "
        "scorers/predicate_reading scorers/re2 scorers/written_by_llm scorers/written_model"
    ),
    "sinks/test_store.py": "sinks/keeping",
    "sinks/test_api_server.py": (
        "sinks/annotate_command sinks/api_access sinks/api_file sinks/http_site sinks/decisions sinks/live_query "
        "sinks/live_reader sinks/run_service"
    ),
    "sinks/test_live_metrics.py": (
        "sinks/exposition sinks/label_sets sinks/live_counts sinks/process_samples sinks/rate_window sinks/run_health "
        "sinks/watched_samples"
    ),
    "sinks/test_snapshot.py": "sinks/live_snapshots sinks/snapshot_command",
    "sinks/test_history.py": "sinks/answer sinks/answer_files sinks/history_command sinks/json_values",
    "sinks/test_ledger.py": "sinks/ledger_command",
    "sinks/test_reading_commands.py": (
        "sinks/command_options sinks/dead_letters_command sinks/gaps_command sinks/rates_command sinks/trace_report"
    ),
    "streams/alerting/test_shift_watch.py": (
        "streams/alerting/bank streams/alerting/allotment streams/alerting/breach "
        "streams/alerting/incident streams/alerting/slice_units "
        "streams/alerting/finding streams/alerting/state_file streams/alerting/watched_rows "
        "streams/alerting/series_book streams/alerting/open_tick"
    ),
    "streams/alerting/test_catching_up.py": (
        "streams/alerting/lane_clock streams/alerting/kept_commits streams/keep_watch"
    ),
    "streams/alerting/test_value_bank.py": "streams/alerting/slice_values streams/alerting/value_attribution",
    "streams/alerting/test_decisions.py": (
        "streams/alerting/alert_list streams/alerting/alert_reading streams/alerting/alert_words "
        "streams/alerting/alerts_command streams/alerting/explain streams/alerting/decision_commands "
        "streams/alerting/decision_reading streams/alerting/answer_reading streams/alerting/relabelling "
        "streams/alerting/links streams/alerting/watched_list sinks/stored_facts streams/program_name"
    ),
    "streams/test_run_alerts.py": "streams/alerting/live_alerts streams/alerting/alert_gauges",
    "streams/test_alert_webhook.py": "streams/alerting/alert_message",
    "deploy/test_alert_delivery.py": (
        "streams/monitoring/prometheus_rules streams/monitoring/alertmanager_routes "
        "streams/monitoring/rules_command streams/monitoring/written_files"
    ),
    "deploy/test_dashboards.py": (
        "streams/monitoring/panels streams/monitoring/value_panels streams/monitoring/dashboards_command"
    ),
    "deploy/test_airline_alerts.py": "streams/alerting/attribution streams/alerting/rows",
    "streams/test_check.py": "streams/check_command scorers/portfolio_warnings",
    "streams/test_check_against.py": "streams/against_report",
    "streams/test_replay.py": "streams/replay_command streams/scorers_options",
    "streams/test_replay_report.py": "streams/outcome_table streams/release_comparison streams/progress",
    "streams/test_publish.py": "streams/publish_command streams/kafka_options",
    "streams/test_run.py": (
        "streams/dead_letter_messages streams/forgetting streams/outbox_relay streams/portfolio_watch "
        "streams/run_command streams/run_log "
        "streams/slice_pieces streams/thinning_options sinks/outbox sinks/recorded_policies"
    ),
    "streams/test_backfill.py": "streams/backfill_command streams/topic_range",
    "streams/test_publisher.py": (
        "streams/function_wrapping streams/model_response streams/trace_recording streams/trace_sender"
    ),
    "scorers/judges/test_attacks.py": "scorers/judges/fence scorers/judges/suspicion",
    "scorers/judges/test_prompt.py": "scorers/judges/scale scorers/judges/chat_model",
    "streams/judges/test_closing.py": (
        "sinks/judge_closing sinks/judged_record sinks/verdict_batch sinks/verdict_ticks sinks/judge_rows "
        "scorers/judges/ensemble scorers/judges/scripted_model scorers/awaited_composites streams/judges/worker "
        "streams/judges/judge_pool streams/judges/judging"
    ),
    "streams/judges/test_getting_through.py": (
        "streams/judges/breaker streams/judges/provider streams/judges/rate_limit streams/judges/verdict_cache "
        "streams/judges/wallet sinks/judge_money"
    ),
    "streams/judges/test_models.py": (
        "streams/judges/chat_completions streams/judges/http_model streams/judges/http_sender streams/judges/secret "
        "streams/judges/litellm_model streams/judges/litellm_failure streams/judges/quiet_litellm"
    ),
    "streams/judges/test_command.py": (
        "streams/judges/estimating streams/judges/rebuilding streams/judges/rerunning streams/judges/model_maker "
        "sinks/judge_agreement sinks/override_command sinks/row_place"
    ),
    "streams/judges/test_judge_role.py": (
        "streams/judges/judge_process streams/judges/judge_start streams/judges/keeper_client "
        "streams/judges/live_judges streams/judges/request_topic streams/judges/scored_reader "
        "streams/judges/stored_requests streams/judges/worker_page sinks/judge_desk sinks/judge_samples sinks/overrides"
    ),
    "streams/test_slice_source.py": "streams/faust_slices streams/raw_slice streams/topic_check",
    "streams/detectors/test_fleet.py": (
        "streams/detectors/arrays streams/detectors/baseline streams/detectors/fleet_config streams/detectors/single "
        "streams/detectors/snapshot streams/detectors/contexts"
    ),
    "streams/detectors/test_watch.py": (
        "streams/detectors/lifecycle streams/detectors/recovery streams/detectors/ring streams/detectors/wander"
    ),
    "design/test_resolver.py": (
        "design/arguments design/runners design/narrowing "
        "design/annotations design/attributes design/callgraph design/calls design/expressions design/frame design/ir "
        "design/library_calls design/lower design/modules design/program design/solver design/statements design/trees "
        "design/values"
    ),
    "design/test_patterns.py": (
        "design/pattern_breaker design/pattern_stream "
        "design/code_walk design/pattern_failure design/pattern_hit design/pattern_io design/sites design/libraries"
    ),
    "design/test_hostile.py": "design/ignore design/scan design/analysis design/pattern_cache",
    "design/test_design.py": (
        "design/architecture design/architecture_critic design/classify design/command design/components "
        "design/export_portfolio design/export_store design/output design/progress design/questions design/refine "
        "design/report_html design/report_markdown design/stage design/summary design/verify design/graph_formats "
        "design/graph_drawing design/component_names design/tiers"
    ),
    "design/test_diff.py": "design/code_texts",
    "design/test_prompts.py": "design/constants",
    "design/test_proof.py": (
        "design/judges design/metric_catalog design/metric_design design/salience design/spans design/traceability"
    ),
}


def product_modules() -> list[Path]:
    return [path for package in BELOW for path in sorted((ROOT / package).rglob("*.py"))]


def python_files() -> Iterator[Path]:
    for folder in (*BELOW, "deploy", "tests"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def test_the_product_is_four_packages() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}

    assert packages == set(BELOW)
    assert set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(BELOW)
    assert set(PROJECT["tool"]["importlinter"]["root_packages"]) == set(BELOW)


@pytest.mark.parametrize("package", BELOW)
def test_imports_run_one_way_and_are_absolute(package: str) -> None:
    wrong = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(_tree(path)):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
                wrong += [f"{_name(path)}:{node.lineno}: a relative import"] if node.level else []
            tops = {name.partition(".")[0] for name in names}
            beside = tops & ({*BELOW, "tests", "deploy"} - BELOW[package] - {package})
            wrong += [f"{_name(path)}:{node.lineno}: {top}" for top in beside if isinstance(node, ast.stmt)]

    assert wrong == []


def test_a_file_is_named_for_what_it_gives() -> None:
    assert [_name(path) for path in python_files() if EMPTY_NAMES.search(path.stem)] == []


def test_an_init_holds_a_docstring_and_nothing_else() -> None:
    for path in product_modules():
        if path.name == "__init__.py":
            body = _tree(path).body
            assert len(body) == 1, path
            assert isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant), path
    # Without one, two tests of the same name are one module to mypy and pytest.
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [_name(folder) for folder in folders if not (folder / "__init__.py").is_file()] == []


def test_every_module_says_why_it_is_there() -> None:
    assert [_name(path) for path in product_modules() if not ast.get_docstring(_tree(path))] == []


def _longest(name: str) -> int:
    return LONG[name][0] if name in LONG else LONGEST_TEST if name.startswith("tests/") else LONGEST


def test_a_file_can_be_read_in_one_sitting_or_says_why_not() -> None:
    lengths = {_name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in python_files()}
    too_long = {name: n for name, n in lengths.items() if n > _longest(name)}

    assert too_long == {}, "part the file; only where that would tear apart what belongs together, give its reason"


def test_the_list_of_long_files_gets_shorter_only() -> None:
    lengths = {name: len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in LONG}

    assert {name: n for name, n in lengths.items() if n <= LONGEST} == {}, "they fit now: take them off the list"
    assert len(LONG) <= 19


def test_every_module_has_a_test_of_its_name_or_is_listed_with_its_test() -> None:
    own = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    modules = {_name(path.with_suffix("")) for path in product_modules() if path.name != "__init__.py"}
    listed = [name for names in TESTED_BY.values() for name in names.split()]

    assert {name for name in modules if Path(name).stem not in own} - set(listed) == set(), "name the test of it"
    assert set(listed) - modules == set(), "there is no such module any more"
    assert [name for name in listed if listed.count(name) > 1] == []
    assert [test for test in TESTED_BY if not (ROOT / "tests" / test).is_file()] == []


def test_a_commit_is_held_to_the_checks_of_form_that_the_tests_begin_with() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    script = (ROOT / "tests" / "run").read_text(encoding="utf-8")
    run = ["".join(found) for found in re.findall(r'^"\$bin/([a-z-]+)"( format| check)?', script, re.MULTILINE)]
    hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]

    entries = [hook["entry"].removeprefix(".venv/bin/").split(" --")[0] for hook in hooks]
    assert sorted(entries) == sorted(run)
    assert {repo["repo"] for repo in config["repos"]} == {"local"}, "nothing is fetched to make a commit"


# ---- frameworks at the rim: the contracts of import-linter, and that they would find what they are for ----


def _lint(folder: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env={"PYTHONPATH": str(folder), "PATH": ""}, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("house")
    shutil.copy(ROOT / "pyproject.toml", folder)
    for package in BELOW:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_the_contracts_of_imports_are_kept(copy: Path) -> None:
    done = _lint(copy)

    assert done.returncode == 0, done.stdout
    assert f"{len(PROJECT['tool']['importlinter']['contracts'])} kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("file", "statement"),
    [
        ("scorers/plan.py", "import sinks.store"),
        ("design/scan.py", "import streams.replay"),
        ("streams/replay.py", "import faust"),
        ("streams/publish.py", "from mode import Service"),
        ("sinks/store.py", "import aiohttp"),
        ("streams/replay.py", "import aiokafka"),
        ("scorers/plan.py", "import duckdb"),
        ("design/scan.py", "import tree_sitter"),
        ("scorers/judge_requests.py", "import litellm"),
    ],
    ids=lambda text: text.replace("/", "."),
)
def test_a_framework_in_the_wrong_place_is_found(file: str, statement: str, copy: Path) -> None:
    path = copy / file
    before = path.read_text(encoding="utf-8")
    # Where nobody looks: in a function.
    path.write_text(f"{before}\n\ndef hidden() -> None:\n    {statement}\n")
    try:
        done = _lint(copy)
    finally:
        path.write_text(before)

    assert done.returncode == 1, done.stdout
    assert "BROKEN" in done.stdout
