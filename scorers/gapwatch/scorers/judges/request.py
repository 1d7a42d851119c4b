"""Judge request: one question to one judge about one span, its id and its JSON form."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import orjson

from gapwatch.scorers.slices.columns import DEFAULT_ENVIRONMENT
from gapwatch.scorers.slices.facet_names import OTHER


@dataclass(frozen=True, slots=True)
class AwaitedComposite:
    """Composite metric that waits for judges on one span.

    Attributes:
        metric, metric_version, epoch: Its series.
        pass_at: Lowest weighted sum that passes; None: every sum passes.
        weights: Weight by part.
        worths: Worth from 0 to 1 of each part that needs no judge; None where the part has no value.
        awaited: Parts that judges still have to answer.
        sampled_out: Whether a part was not evaluated.
        decided: States that the composite has on other spans of the record.
        p_evaluated: Probability that all its judged parts are evaluated.
        rate: Share of the records on which the composite is evaluated.
        keep: Probability by state that its row is stored.
    """

    metric: str
    metric_version: str
    epoch: str
    pass_at: float | None
    weights: Mapping[str, float]
    worths: Mapping[str, float | None]
    awaited: Sequence[str]
    sampled_out: bool
    decided: Sequence[str]
    p_evaluated: float
    rate: float
    keep: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class JudgeRequest:
    """Question to one judge about one span, with the identity of the verdict's row.

    The JSON form has the fields in this order.

    Attributes:
        lane, source_topic, source_partition, source_offset, span_index: Place of the span.
        metric, metric_version, portfolio_sha, pipeline, component: Metric, and its portfolio and component.
        trace_id, span_id, environment, release, session_id, tier, model: Values of the trace and the span.
        p_evaluated: Probability with which the span is judged.
        stratum: Stratum of the span; None outside of strata.
        policy: Id of the selection in force.
        inputs: Redacted text by name; None where the span lacks it. Empty once the request only waits for its verdict.
        event_at: Time of the span, epoch seconds; None where the trace gives none.
        bucket: Number of the tick in which the span counts; None where it has no time.
        epoch: Epoch of the metric's series.
        members: Names of all judges of the metric, in the order of the portfolio.
        quorum: Number of judges that must answer.
        composites: Composites that wait for this metric on this span.
        judge: Name of the judge.
        passes_from: Lowest average position, 0 to 1, at which the ensemble passes; None, as in requests of earlier
            versions: an average above the middle.
        others: Facets (environment, release, tier, model) of which the name counts as `other`.
    """

    lane: str
    source_topic: str
    source_partition: int
    source_offset: int
    span_index: int
    metric: str
    metric_version: str
    portfolio_sha: str
    pipeline: str
    component: str
    trace_id: str
    span_id: str | None
    environment: str | None
    release: str | None
    session_id: str | None
    tier: str | None
    model: str | None
    p_evaluated: float
    stratum: str | None
    policy: str
    inputs: Mapping[str, str | None]
    event_at: float | None
    bucket: int | None
    epoch: str
    members: Sequence[str]
    quorum: int
    composites: Sequence[AwaitedComposite]
    judge: str
    passes_from: float | None = None
    others: Sequence[str] = ()

    @property
    def id(self) -> str:
        """Digest of the identity of the verdict's row; the same whenever the record is read again."""
        return self.id_of(self.judge)

    def id_of(self, judge: str) -> str:
        """Return the id of the same question to another judge of the metric."""
        return request_id(
            self.lane, self.source_topic, self.source_partition, self.source_offset, self.span_index, self.metric,
            self.metric_version, judge,
        )  # fmt: skip

    @property
    def question(self) -> tuple[str, str, str]:
        """Portfolio, metric and judge, which determine the question apart from the inputs."""
        return self.portfolio_sha, self.metric, self.judge

    @property
    def place(self) -> str:
        """Place of its row: topic/partition/offset/span/metric/judge."""
        row = (
            self.source_topic, self.source_partition, self.source_offset, self.span_index, self.metric, self.judge
        )  # fmt: skip
        return "/".join(map(str, row))

    @property
    def series_environment(self) -> str:
        """The environment under which the verdict is stored."""
        return self.environment or DEFAULT_ENVIRONMENT

    def counted(self, facet: str, name: str | None) -> str | None:
        """Return the name under which the verdict counts: `other` where the record's name is not counted apart."""
        return OTHER if facet in self.others else name

    def without_inputs(self) -> JudgeRequest:
        """Return the request without its inputs, which can be long, for the time until its verdict arrives."""
        return replace(self, inputs={})

    def to_json(self) -> bytes:
        """Return the JSON form, as it is stored and sent."""
        return orjson.dumps(self).removesuffix(_NO_OTHERS) + (b"" if self.others else b"}")

    @classmethod
    def from_json(cls, data: bytes) -> JudgeRequest:
        """Read what `to_json` wrote; unknown keys are ignored.

        Raises:
            ValueError: The bytes are not a request.
        """
        request = read_request(data)
        if isinstance(request, OversizeRequest):
            raise ValueError("not a judge request, only the size of one")
        return request


def request_id(*identity: str | int) -> str:
    """Return the id of a request: a digest of its lane, topic, partition, offset, span, metric, version and judge."""
    return hashlib.sha256(orjson.dumps(identity)).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class OversizeRequest:
    """Record that replaces a request which is too large for the topic.

    Attributes:
        bytes: Size of the request.
    """

    bytes: int


#: End of a request of which all names are counted apart, which is left out: so it has the bytes that it always had.
_NO_OTHERS = b',"others":[]}'
#: Fields that requests of earlier versions lack, or that are no JSON value.
_OPTIONAL = ("composites", "passes_from", "others")
_COMPOSITE_NAMES = tuple(field.name for field in fields(AwaitedComposite))
_REQUEST_NAMES = tuple(field.name for field in fields(JudgeRequest) if field.name not in _OPTIONAL)


def read_request(data: bytes) -> JudgeRequest | OversizeRequest:
    """Read a record of the topic `judge-requests`.

    Raises:
        ValueError: The bytes are neither a request nor the size of one.
    """
    try:
        document = orjson.loads(data)
        if "too_large" in document:
            return OversizeRequest(int(document["too_large"]))
        composites = tuple(AwaitedComposite(**_picked(one, _COMPOSITE_NAMES)) for one in document["composites"])
        return JudgeRequest(
            **_picked(document, _REQUEST_NAMES),
            composites=composites,
            passes_from=document.get("passes_from"),
            others=tuple(document.get("others", ())),
        )
    except (orjson.JSONDecodeError, TypeError, KeyError) as error:
        raise ValueError(f"not a judge request: {error!r}") from error


def _picked(document: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: document[name] for name in names}
