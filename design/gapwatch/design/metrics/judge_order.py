"""Says in which order the judges of a portfolio are taken."""

from __future__ import annotations

from gapwatch.design.metrics.metric_design import MetricDesign


def comes_later(metric: MetricDesign, fitting: list[MetricDesign], taken: list[MetricDesign]) -> bool:
    """Return whether a judge comes after others: one of answers first, then that of searches, one of a prompt last.

    Of the judges of prompts that persons read, 62 of 107 were right; so a portfolio has at most one.

    Args:
        metric: A metric.
        fitting: Those that may be taken, itself included.
        taken: Those that were taken.
    """
    if metric.source != "judge":
        return False
    if metric.reads_search:
        return not any(map(_is_of_answers, taken)) and any(map(_is_of_answers, fitting))
    if not _is_of_prompt(metric):
        return False
    return any(map(_is_of_prompt, taken)) or any(m.reads_search or _is_of_answers(m) for m in fitting)


def _is_of_answers(metric: MetricDesign) -> bool:
    """Return whether a judge holds answers to what was found for them."""
    return metric.source == "judge" and metric.concern == "groundedness" and not metric.reads_search


def _is_of_prompt(metric: MetricDesign) -> bool:
    """Return whether a judge holds answers to all that a prompt asks for."""
    return metric.source == "judge" and metric.family.endswith("follows_its_prompt")


def judges_sql(metric: MetricDesign) -> bool:
    """Return whether a judge reads the SQL of a model; one reads that of the first step, whoever mends it."""
    return metric.source == "judge" and metric.family.endswith("sql_answers_the_question")
