"""JUnit XML of a run, which CI systems show: a case for each gate and each example."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, tostring

from gapwatch.streams.evaluation.reports.gate import Gate
from gapwatch.streams.evaluation.reports.run_result import EvaluationRun

#: Characters that XML 1.0 cannot hold.
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_xml(run: EvaluationRun, gates: Sequence[Gate]) -> bytes:
    """Return a test suite of gates, which fail where missed, and one of examples, which err where a call did."""
    suites = Element("testsuites", name=_clean(run.candidate_name or "evaluation"))
    missed = {gate: gate.missed(run) for gate in gates}
    suite = SubElement(
        suites, "testsuite", name="gates", tests=str(len(gates)), failures=str(sum(map(bool, missed.values()))),
    )  # fmt: skip
    for gate, why in missed.items():
        case = SubElement(suite, "testcase", classname="gate", name=_clean(f"{gate.metric} {gate.text}"))
        if why is not None:
            SubElement(case, "failure", message=_clean(why))
    failing = {
        one.id: [metric for metric, told in run.outcomes.get(one.id, {}).items() if told["outcome"] == "fail"]
        for one in run.examples
    }
    suite = SubElement(
        suites, "testsuite", name="examples", tests=str(len(run.examples)), errors=str(len(run.errors)),
        failures=str(sum(bool(failing[one.id]) and one.error_type is None for one in run.examples)),
    )  # fmt: skip
    for example in run.examples:
        seconds = example.latency_seconds or 0.0
        case = SubElement(suite, "testcase", classname="example", name=_clean(example.id), time=f"{seconds:.6f}")
        if example.error_type is not None:
            SubElement(case, "error", type=_clean(example.error_type), message=_clean(example.error or ""))
        elif failing[example.id]:
            SubElement(case, "failure", message=_clean(f"fails {', '.join(failing[example.id])}"))
    return bytes(tostring(suites, encoding="utf-8", xml_declaration=True))


def _clean(text: str) -> str:
    return _NOT_XML.sub("?", text)
