"""A cause leaves out what the claim says by itself; what else grew stays."""

from __future__ import annotations

import pytest

from gapwatch.scorers.loading.load import parse_portfolio
from gapwatch.scorers.portfolio.metric import Metric
from gapwatch.streams.alerting.incidents.alert_cause import Cause, CountedShare, LabelShare
from gapwatch.streams.alerting.incidents.restatement import restates, without_restatement

CAUSE = Cause(
    shares={facet: (CountedShare("x", 1.0, 4, 4, 9, 0),) for facet in ("release", "model", "tier")},
    labels=(LabelShare("fallback", 0.0, 0.6), LabelShare("failed", 0.0, 0.2), LabelShare("primary", 1.0, 0.2)),
)
TIER = "{form: label, field: tier, labels: [primary, fallback], bad: [fallback]}"


def metric(claim: str, scope: str = "component: c") -> Metric:
    head = "{gapwatch: 1, portfolio: p, version: 1, pipeline: p, components: [{id: c, kind: llm}], metrics: "
    return parse_portfolio(f"{head}[{{name: m, {scope}, claim: {claim}}}]}}").metrics[0]


@pytest.mark.parametrize(
    ("claim", "facets", "labels"),
    [
        (TIER, ["release", "model"], []),
        (TIER.replace("tier", "model"), ["release", "tier"], []),
        (TIER.replace("fallback]", "fallback, failed]"), ["release", "model"], ["fallback", "failed"]),
        ("{form: check, field: model, one_of: [a]}", ["release", "tier"], ["fallback", "failed", "primary"]),
        ("{form: check, field: output, present: true}", ["release", "model", "tier"],
         ["fallback", "failed", "primary"]),
        ("{form: measure, field: latency, unit: seconds}", ["release", "model", "tier"],
         ["fallback", "failed", "primary"]),
    ],
)  # fmt: skip
def test_the_field_that_decides_a_failure_is_no_cause_of_it(claim: str, facets: list[str], labels: list[str]) -> None:
    left = without_restatement(CAUSE, metric(claim), is_rate=True)

    assert list(left.shares) == facets
    assert [part.value for part in left.labels] == labels


def test_where_the_mix_of_labels_moved_every_label_is_told() -> None:
    assert without_restatement(CAUSE, metric(TIER), is_rate=False).labels == CAUSE.labels
    assert without_restatement(CAUSE, None, is_rate=True) == CAUSE


def test_a_dimension_that_the_claim_reads_is_no_cause() -> None:
    reads = metric('{form: label, field: trace.attributes.reward, labels: ["1", "0"], bad: ["0"]}', "scope: trace")

    assert restates(reads, "dimension reward") and not restates(reads, "dimension region")
    assert not restates(reads, "tool") and not restates(None, "dimension reward")
