"""Commands that read a store and commands that decide, as one types them, for tests of the ways to a store."""

from __future__ import annotations

#: Reading commands, without --store. ALERT stands for the id of an alert that is open.
READING: list[list[str]] = [
    ["alerts", "--all"],
    ["alerts", "--watched"],
    ["alerts", "--format", "json"],
    ["explain", "ALERT"],
    ["explain", "no-such-alert"],
    ["rates", "--per", "day"],
    ["rates", "--ratios"],
    ["gaps", "--limit", "3"],
    ["gaps", "--outcome", "all", "--format", "json"],
    ["ledger"],
    ["dead-letters"],
    ["history", "SELECT count(*) AS n FROM ticks"],
    ["history", "SELECT metric, rate FROM rates ORDER BY ALL", "--format", "csv"],
    ["history", "SELECT no_such_column FROM gaps"],
    ["judge", "agreement"],
    ["issue", "list"],
    ["issue", "show", "no-such-issue"],
    ["triage", "list"],
    ["triage", "check"],
    ["test", "report", "no-such-run"],
    ["test", "trend"],
    ["compare", "no-such-run", "last"],
    ["judge", "rerun", "no/such/row", "--show"],
]
#: Commands of which both forms answer differently, or that open the file itself.
APART = (
    "snapshot", "export", "judge run", "judge reproducibility", "migrate", "serve", "issue new", "issue import",
    "issue export", "test run",
)  # fmt: skip
#: Decisions that may be made again. ALERT and ROW stand for an alert and a row.
DECIDING: list[list[str]] = [
    ["ack", "ALERT", "--by", "maria"],
    ["silence", "ALERT", "--for", "8h", "--by", "maria"],
    ["answer", "q-fallback", "lower", "--by", "maria"],
    ["annotate", "deploy v12", "--by", "maria"],
    ["override", "ROW", "--outcome", "pass", "--why", "it is right", "--by", "maria"],
    ["accept", "no-such-alert", "--by", "maria"],
    ["judge", "retry", "--where", "reason=no_such_reason", "--by", "maria"],
    ["feedback", "/dev/null"],
    ["issue", "set", "no-such-issue", "--status", "open", "--by", "maria"],
    ["issue", "add-test", "no-such-issue", "--input", "x", "--by", "maria"],
    ["issue", "metric", "no-such-issue", "--component", "a", "--judge", "a/b", "--by", "maria"],
    ["issue", "from-trace", "no-such-trace", "--by", "maria"],
    ["triage", "make", "row:no-such-trace", "--by", "maria"],
    ["triage", "join", "row:no-such-trace", "no-such-issue", "--by", "maria"],
    ["test", "override", "no-such-run", "t", "--outcome", "pass", "--why", "right", "--by", "maria"],
    ["triage", "drop", "row:no-such-trace", "--why", "noise", "--by", "maria"],
]
