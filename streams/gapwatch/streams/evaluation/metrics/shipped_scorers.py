"""Host of the shipped Python scorers in this process; a script that evaluates could not be imported by another one."""

from __future__ import annotations

from gapwatch.scorers.scoring.python_scorer import REGISTRY, Scored, Span, as_scored
from gapwatch.scorers.scoring.scorer_host import Failed, ScorerHost
from gapwatch.streams.evaluation.metrics import python_scorers, text_scores


class ShippedScorers(ScorerHost):
    """Runs the functions of `python_scorers` and `text_scores`, which do not hang, without a process of their own."""

    def __init__(self) -> None:
        modules = (python_scorers.__name__, text_scores.__name__)
        own = {name: one for name, one in REGISTRY.items() if one.function.__module__ in modules}
        self._own = own
        self.scorers = {name: registered.fields for name, registered in own.items()}

    def run(self, name: str, spans: list[Span]) -> list[Scored | Failed]:
        """Return one answer per span, in their order."""
        function = self._own[name].function
        answers: list[Scored | Failed] = []
        for span in spans:
            try:
                answers.append(as_scored(function([span])[0]))
            except Exception as error:  # such as a JSON Schema that is none
                answers.append(Failed("exception", f"{type(error).__name__}: {error}"[:300]))
        return answers

    def close(self) -> None:
        """Do nothing: there is no process."""
