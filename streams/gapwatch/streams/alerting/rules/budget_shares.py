"""Splits the monthly false-alarm budget of a pipeline over its series, and gives the threshold of each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gapwatch.streams.alerting.rules.alert_rule import AlarmBudget, AlertRule
from gapwatch.streams.detectors.budgets.budget import Allowances
from gapwatch.streams.detectors.contexts import TICKS_A_DAY

_TICKS_A_PERIOD = 30 * TICKS_A_DAY


def share_key(rule: AlertRule, kind: str, environment: str | None) -> str:
    """Return the key of a budget share; an environment that was not planned for has a key of its own."""
    return "\x1f".join([rule.metric, kind, *([] if environment is None else [environment])])


class BudgetShares:
    """Monthly false-alarm budget of one pipeline, split over the series that may alert.

    The first environment that is seen gets the planned shares. Another environment, or a new epoch of a series, is a
    newcomer and draws on the reserve, so the sum stays within the budget. The budget is split again every 30 days.

    Args:
        budget: Budget of the portfolio.
        rules: Alert rules of the pipeline's metrics.
    """

    def __init__(self, budget: AlarmBudget, rules: Sequence[AlertRule]) -> None:
        self._budget = budget
        self._rules = {rule.metric: rule for rule in rules}
        self._tickets = Allowances(budget.tickets)
        self._pages = Allowances(budget.pages)
        self._owner: dict[str, str] = {}
        self.period = 0

    def is_over(self, tick: int) -> bool:
        """Return True where the current period is over, or no period has begun yet."""
        return tick // _TICKS_A_PERIOD + 1 != self.period

    def start_period(self, tick: int, extra: Iterable[tuple[str, str]]) -> bool:
        """Split the budget again where a new period of 30 days has begun; return True where it has.

        Args:
            tick: Current tick.
            extra: (share key, metric) of newcomers that still exist; they get planned shares from now on.
        """
        if not self.is_over(tick):
            return False
        self.period = tick // _TICKS_A_PERIOD + 1
        planned = [(share_key(rule, kind, None), name) for name, rule in self._rules.items() for kind in rule.kinds]
        newcomers = sorted(set(extra) - set(planned))
        keys = [*planned, *(entry for entry in newcomers if entry[1] in self._rules)]
        self._tickets.open_period([key for key, _ in keys])
        self._pages.open_period([key for key, metric in keys if self._rules[metric].pages_on(_kind(key))])
        return True

    def key_for(self, rule: AlertRule, kind: str, series: str, environment: str) -> str:
        """Return the share key of a series: the planned one for the first series that asks, else one of its own."""
        planned = share_key(rule, kind, None)
        if self._owner.setdefault(planned, series) == series:
            return planned
        return share_key(rule, kind, f"{environment}\x1f{series}")

    def allowed(self, rule: AlertRule, kind: str, key: str) -> tuple[float, float]:
        """Return the false tickets and pages allowed to a series in 30 days; 0 where rule or budget allow none."""
        pages = rule.pages_on(kind) and self._budget.pages > 0
        return (
            self._tickets.share(key) if self._budget.tickets > 0 else 0.0,
            self._pages.share(key) if pages else 0.0,
        )

    def as_json(self) -> dict[str, Any]:
        """Return the shares as JSON values."""
        return {
            "period": self.period,
            "owner": self._owner,
            "tickets": [self._tickets.shares, self._tickets.newcomers],
            "pages": [self._pages.shares, self._pages.newcomers],
        }

    def take_json(self, value: dict[str, Any]) -> None:
        """Restore the shares from `as_json`."""
        self.period, self._owner = value["period"], dict(value["owner"])
        for allowances, name in ((self._tickets, "tickets"), (self._pages, "pages")):
            allowances.shares, allowances.newcomers = dict(value[name][0]), value[name][1]


def _kind(key: str) -> str:
    return key.split("\x1f")[1]
