"""Issue and test, as the store has them: the latest version of each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from gapwatch.scorers.errors import UsageError

#: States of an issue, in the order of its life.
STATUSES = ("draft", "open", "fixed", "regressed", "closed")
#: Judge set-ups of GRAFITE by number: what the judge sees besides the guideline.
TEMPLATES = {1: ("input", "output", "reference"), 2: ("output", "reference"), 3: ("input", "output")}


@dataclass(frozen=True)
class Issue:
    """Erroneous behaviour of a model that tests watch.

    Attributes:
        issue_id: Its id.
        title: One line.
        description: What is wrong.
        status: One of `STATUSES`.
        domain: Field of use, such as math; empty if none.
        tags: Further words.
        template: Judge set-up of its tests, a key of `TEMPLATES`.
        guideline: Guideline of its tests, for the judge.
        metric: Metric of the portfolio that watches for its return; empty if none.
        by: Who wrote this version.
        at: When, UTC.
        why: Reason for this version.
    """

    issue_id: str
    title: str
    description: str
    status: str
    domain: str
    tags: tuple[str, ...]
    template: int
    guideline: str
    metric: str
    by: str
    at: Any = None
    why: str | None = None

    def row(self) -> dict[str, Any]:
        """Return the columns of a version."""
        return {
            "issue_id": self.issue_id, "title": self.title, "description": self.description, "status": self.status,
            "domain": self.domain, "tags": orjson.dumps(self.tags).decode(), "template": self.template,
            "guideline": self.guideline, "metric": self.metric, "by": self.by, "why": self.why,
        }  # fmt: skip

    def __post_init__(self) -> None:
        if not self.title.strip():
            raise UsageError("an issue needs a title")
        if self.status not in STATUSES:
            raise UsageError(f"status must be one of {', '.join(STATUSES)}")
        if self.template not in TEMPLATES:
            raise UsageError(
                "template must be 1 (input, output, reference), 2 (output, reference) or 3 (input, output)"
            )


@dataclass(frozen=True)
class IssueTest:
    """Test of an issue: an input that showed its behaviour, and how a judge rates the answer.

    Attributes:
        test_id: Its id.
        issue_id: Its issue.
        messages: Chat messages, each with `role` and `content`.
        reference: Right answer; None if there is none.
        template: Judge set-up; None inherits that of the issue.
        guideline: Guideline; None inherits that of the issue.
        origin: What it was made from, such as `trace t-1`; empty if by hand.
        is_active: False takes it out of runs.
        by: Who wrote this version.
        why: Reason for this version.
    """

    test_id: str
    issue_id: str
    messages: tuple[dict[str, str], ...]
    reference: str | None
    template: int | None
    guideline: str | None
    origin: str
    is_active: bool
    by: str
    why: str | None = None

    def __post_init__(self) -> None:
        if not self.messages or not all(
            isinstance(one.get("role"), str) and isinstance(one.get("content"), str) for one in self.messages
        ):
            raise UsageError("a test needs messages, each with `role` and `content`")
        if self.template is not None and self.template not in TEMPLATES:
            raise UsageError("template must be 1, 2 or 3")

    def row(self) -> dict[str, Any]:
        """Return the columns of a version."""
        return {
            "test_id": self.test_id, "issue_id": self.issue_id, "inputs": orjson.dumps(self.messages).decode(),
            "reference": self.reference, "template": self.template, "guideline": self.guideline,
            "origin": self.origin, "is_active": self.is_active, "by": self.by, "why": self.why,
        }  # fmt: skip

    def setup(self, issue: Issue) -> tuple[int, str]:
        """Return its judge set-up and guideline, inherited from its issue where it has none."""
        return self.template or issue.template, self.guideline if self.guideline is not None else issue.guideline

    def sha(self, issue: Issue) -> str:
        """Return 12 hex digits of a digest of what is asked and how it is judged."""
        asked = (self.messages, self.reference, *self.setup(issue))
        return hashlib.sha256(orjson.dumps(asked)).hexdigest()[:12]

    def input_text(self) -> str:
        """Return the messages as one text, for a judge; a single message without its role."""
        if len(self.messages) == 1:
            return self.messages[0]["content"]
        return "\n\n".join(f"{one['role']}: {one['content']}" for one in self.messages)


@dataclass(frozen=True)
class Choice:
    """Choice of tests: empty parts choose all.

    Attributes:
        issues: Ids of issues.
        tests: Ids of tests.
        tags: Tags, one of which an issue must have.
        domains: Domains of issues.
    """

    issues: Sequence[str] = ()
    tests: Sequence[str] = ()
    tags: Sequence[str] = ()
    domains: Sequence[str] = ()

    def takes(self, issue: Issue, test: IssueTest) -> bool:
        """Return whether a test belongs to the choice."""
        return (
            (not self.issues or issue.issue_id in self.issues)
            and (not self.tests or test.test_id in self.tests)
            and (not self.tags or bool(set(self.tags) & set(issue.tags)))
            and (not self.domains or issue.domain in self.domains)
        )
