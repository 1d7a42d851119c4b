"""What came of one judge request: a verdict, an error with its reason, or a refusal to pay; it travels as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from gapwatch.scorers.judges.triple import StabilityTriple

#: In which a request can end; `shed_budget` has no row, like a span that was sampled out.
JUDGEMENT_STATES = ("pass", "fail", "error", "shed_budget", "shed_load")


@dataclass(frozen=True)
class PaidCall:
    """One call to a provider, as it is booked.

    Attributes:
        model: `vendor/name`, as asked.
        kind: What came of it: `verdict`, `no_verdict`, or the kind of failure.
        input_tokens, output_tokens: As billed; 0 where nothing was.
        usd: Its price; for a failure that may have been billed the most that it can have cost.
        seconds: From sending to the end.
    """

    model: str
    kind: str
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """The end of one judge request.

    Attributes:
        id: Of the request.
        state: One of `JUDGEMENT_STATES`.
        score: As the scale says; None where there is no verdict.
        position: The same from 0 (worst) to 1 (best).
        band: Word of the scale.
        reason: Why there is no verdict.
        observed: Beginning of what was judged, redacted.
        triple: What pins the verdict; None where it is not complete, and then the state is error.
        prompt_sha, sampling_params_sha: Parts of the triple that are known without an answer.
        request_sha, input_sha: Of the request as sent, of the inputs as given.
        evidence: For the row: justification, nonce, parameters, suspicions, usage.
        calls: What was paid for.
    """

    id: str
    state: str
    score: float | None = None
    position: float | None = None
    band: str | None = None
    reason: str | None = None
    observed: str | None = None
    triple: StabilityTriple | None = None
    prompt_sha: str | None = None
    sampling_params_sha: str | None = None
    request_sha: str | None = None
    input_sha: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    calls: tuple[PaidCall, ...] = ()

    def __post_init__(self) -> None:
        if self.state not in JUDGEMENT_STATES:
            raise ValueError(f"no judgement ends as {self.state!r}")
        if self.state in ("pass", "fail") and (self.triple is None or self.score is None):
            raise ValueError("a verdict needs a score and all three that pin it")

    def to_json(self) -> bytes:
        """Return it as it travels."""
        return orjson.dumps(asdict(self))

    @classmethod
    def from_json(cls, data: bytes) -> Judgement:
        """Read what `to_json` wrote.

        Raises:
            ValueError: It is none.
        """
        try:
            document = orjson.loads(data)
            triple = document.pop("triple")
            calls = tuple(PaidCall(**call) for call in document.pop("calls"))
            return cls(triple=None if triple is None else StabilityTriple(**triple), calls=calls, **document)
        except (TypeError, KeyError, AttributeError, orjson.JSONDecodeError) as error:
            raise ValueError(f"no judgement: {error}") from error


#: What the topic `scored` calls a record of judgements.
SCHEMA_NAME = "judgements/1"
_SCHEMA = pa.schema([("id", pa.string()), ("judgement", pa.binary())])
#: Bytes of judgements in one record; brokers take 1 MiB by default.
RECORD_BYTES = 400_000


def judgement_records(judgements: Sequence[Judgement]) -> Iterator[bytes]:
    """Yield judgements as records of the topic `scored`: Arrow IPC, each of a size that brokers take."""
    ids: list[str] = []
    values: list[bytes] = []
    size = 0
    for judgement in judgements:
        value = judgement.to_json()
        if ids and size + len(value) > RECORD_BYTES:
            yield _record(ids, values)
            ids, values, size = [], [], 0
        ids.append(judgement.id)
        values.append(value)
        size += len(value)
    if ids:
        yield _record(ids, values)


def _record(ids: list[str], values: list[bytes]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA) as writer:
        writer.write_table(pa.table({"id": ids, "judgement": values}, schema=_SCHEMA))
    return bytes(sink.getvalue())


def judgements_of(record: bytes) -> list[Judgement]:
    """Read what `judgement_records` wrote.

    Raises:
        ValueError: It is no such record.
    """
    if not record:
        return []  # only its headers say something
    try:
        table = pa.ipc.open_stream(record).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"no judgements: {error}") from error
    if not table.schema.equals(_SCHEMA):
        raise ValueError("no judgements: other columns")
    return [Judgement.from_json(value) for value in table.column("judgement").to_pylist()]
