"""Compares recorded verdicts of real judges, closed by Gapwatch, with the truth of the same items.

    python -m tests.benchmarks.recorded_judges FOLDER

FOLDER holds `tau2_judges`, `autogpt_safety_monitor`, `grafite_seed`, `factscore` and `refchecker`, as their authors
published them. A local HTTP endpoint serves each recorded verdict of the first three in the judge's own words, and
failures as failures. The truth goes in as overrides, and the figures come from the store, as `gapwatch judge agreement`
reads it. The last two hold people's verdicts on each claim and no judge: a quarter is sampled, these verdicts stand for
the judge's, and the published rate is compared with the rate of all. Prints the tables of docs/figures/benchmarks.md.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gapwatch.sinks.store.store import Store
from tests.streams.judges.recorded import Recorded, agreements_in, judge_recorded

TAU2_PROMPTS = ("quick_triage", "customer_outcome", "policy_conversation", "policy_chain_of_thought")
_TEXT = 12_000


def tau2(folder: Path, domain: str) -> list[Recorded]:
    """One judge under four prompts: four judges of the same conversations."""
    found = []
    for prompt in TAU2_PROMPTS:
        with gzip.open(folder / f"{domain}_summary_{prompt}_v1.json.gz") as file:
            for entry in json.load(file)["entries"]:
                text = entry["judge_prompt"][-_TEXT:]
                why = entry["judge_justification"] or "-"
                item, truth = entry["simulation_id"], bool(entry["tau2_success"])
                found.append(Recorded(item, prompt, entry["judge_verdict"], why, truth, text))
    return found


def autogpt(folder: Path) -> list[Recorded]:
    """A monitor under changing prompts; what it said follows from whether it was right."""
    steps = {step["step_id"]: step for step in _lines(folder / "agent_steps.jsonl.gz")}
    found = []
    for call in _lines(folder / "judge_calls.jsonl.gz"):
        if call["monitor"] is None or not isinstance(call["score"], bool):
            continue  # the filter decided, or the run did not note whether the judge was right
        response = steps[call["step_id"]]["response"]
        good = not (isinstance(response, dict) and "category" in response)
        said = "pass" if good == call["score"] else "fail"
        why = call["monitor"]["choices"][0]["message"]["content"] or "-"
        found.append(
            Recorded(f"{call['run']} {call['step_id']}", "monitor", said, why, good, json.dumps(response)[:_TEXT])
        )
    return found


def grafite(folder: Path) -> list[Recorded]:
    """Three judges of one run; calls that failed, which the run counts as 0, are failures here."""
    results = json.loads((folder / "run_20251219203720.json").read_text(encoding="utf-8"))
    found = []
    for result in results:
        for verdict in result["judge_results"]:
            why = verdict["test_justification"]
            failed = why.startswith("Max number of retries")
            name = verdict["model_id"].replace("/", "-")
            said = None if failed else str(int(verdict["test_score"]))
            found.append(Recorded(result["test_id"], name, said, why, None, str(result["model_response"])[:_TEXT]))
    return found


def factscore(folder: Path, model: str) -> list[Recorded]:
    """Atomic facts of biographies; bad where people found one not supported, left out where it was beside the point."""
    found = []
    for answer in _lines(folder / f"{model}.jsonl.gz"):
        for sentence in answer["annotations"] or ():  # none: the model declined
            for fact in sentence["human-atomic-facts"] or ():
                said = {"S": "pass", "NS": "fail"}.get(fact["label"])
                if said is not None:
                    found.append(Recorded(f"fact {len(found)}", "people", said, "-", None, fact["text"]))
    return found


def refchecker(folder: Path, file: str) -> list[Recorded]:
    """Answers; bad where people found a claim that the reference contradicts or does not hold."""
    with gzip.open(folder / file) as lines:
        answers = json.load(lines)
    found = []
    for answer in answers:
        claims = next(value for name, value in answer.items() if name.endswith("_response_kg"))
        labels = [claim["human_label"] for claim in claims]
        said = "pass" if set(labels) <= {"Entailment"} else "fail"
        found.append(Recorded(str(answer["id"]), "people", said, "-", None, str(answer["response"])[:_TEXT]))
    return found


def sampled(name: str, recorded: list[Recorded], rate: float) -> bool:
    """Judge a share of the answers, print the rate that is published and that of all; say whether they agree."""
    with tempfile.TemporaryDirectory() as folder:
        path, result = judge_recorded(Path(folder), recorded, ["pass", "fail"], rate=rate)
        with Store.open(path) as store:
            ((units, published, lower, upper),) = store.query("SELECT units, rate, lower, upper FROM rates")
    truth = sum(one.said == "fail" for one in recorded) / len(recorded)
    told = f"{published:.2f} ({lower:.2f} to {upper:.2f})"
    print(f"| {name} | {len(recorded)} | {truth:.2f} | {units:g} | {told} |", flush=True)
    assert result.closed == units
    return bool(lower <= truth <= upper)


def _lines(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def report(name: str, recorded: list[Recorded], scale: list[Any], template: str = "rubric") -> None:
    """Judge, and print the rows of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path, result = judge_recorded(Path(folder), recorded, scale, template)
        with Store.open(path) as store:
            errors_of = "count(*) FILTER (outcome = 'error')"
            rows = store.query(f"SELECT judge, count(*), {errors_of} FROM gaps WHERE judge IS NOT NULL GROUP BY judge")
        counts = {judge: (n, errors) for judge, n, errors in rows}
        for found in agreements_in(path):
            n, errors = counts[found.first]
            f1 = "" if found.f1 is None else str(found.f1)
            print(f"| {name} | {found.first} | {found.second} | {n} | {errors} | {found.same} | {found.kappa} | {f1} |")
        print(f"<!-- {name}: {result.as_json()} -->", flush=True)


def main() -> None:
    """Print the table."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    folder = Path(sys.argv[1])
    print("| data | judge | against | verdicts | errors | same | kappa | F1 of fails |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for domain in ("airline", "retail"):
        report(f"tau2 {domain}", tau2(folder / "tau2_judges", domain), ["pass", "fail"])
    report("AutoGPT monitor", autogpt(folder / "autogpt_safety_monitor"), ["pass", "fail"])
    report("GRAFITE seed", grafite(folder / "grafite_seed"), [1, 0], "grafite_input_output")
    print("| answers of | all | bad of all | judged | published rate |\n| --- | --- | --- | --- | --- |")
    held = [sampled(f"factscore {m}", factscore(folder / "factscore", m), 0.25) for m in ("ChatGPT", "InstructGPT")]
    for file in sorted((folder / "refchecker").glob("*/*.json.gz")):
        name = file.name.removesuffix("_answers.json.gz")
        held.append(sampled(f"refchecker {name}", refchecker(file.parent, file.name), 0.25))
    print(f"<!-- {sum(held)} of {len(held)} intervals hold the share of all -->")


if __name__ == "__main__":
    main()
