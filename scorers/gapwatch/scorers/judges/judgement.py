"""Judgement: the result of one judge request (verdict, error, or judging skipped), and its JSON form."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from gapwatch.scorers.judges.triple import StabilityTriple

#: Final states of a request. `shed_budget` and `shed_load` store no row, like a span that was sampled out.
JUDGEMENT_STATES = ("pass", "fail", "error", "shed_budget", "shed_load")


@dataclass(frozen=True)
class PaidCall:
    """Call to a provider, with its cost.

    Attributes:
        model: `vendor/name` of the request.
        kind: Result: `verdict`, `no_verdict`, or the kind of failure.
        input_tokens, output_tokens: Billed tokens; 0 where nothing was billed.
        usd: Price, US dollars; for a failure that may have been billed, the highest possible price.
        seconds: Duration of the call.
    """

    model: str
    kind: str
    input_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Judgement:
    """Result of one judge request.

    Attributes:
        id: Id of the request.
        state: One of `JUDGEMENT_STATES`.
        score: Score of the band; None without a verdict.
        position: Position on the scale, from 0 (worst) to 1 (best).
        band: Word of the scale.
        reason: Reason for a missing verdict.
        observed: Beginning of the judged text, redacted.
        triple: Stability triple of the verdict; None where it is incomplete, and then the state is error.
        prompt_sha, sampling_params_sha: Parts of the triple that are known without an answer.
        request_sha, input_sha: Hashes of the request as sent and of the inputs before they are cut.
        evidence: Details for the row: justification, nonce, parameters, suspicions, usage.
        calls: Calls to providers, with their cost.
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
            raise ValueError(f"{self.state!r} is not a state of a judgement")
        if self.state in ("pass", "fail") and (self.triple is None or self.score is None):
            raise ValueError("a verdict needs a score and a complete stability triple")

    def to_json(self) -> bytes:
        """Return the JSON form, as it is sent."""
        return orjson.dumps(asdict(self))

    @classmethod
    def from_json(cls, data: bytes) -> Judgement:
        """Read what `to_json` wrote.

        Raises:
            ValueError: The bytes are not a judgement.
        """
        try:
            document = orjson.loads(data)
            triple = document.pop("triple")
            calls = tuple(PaidCall(**call) for call in document.pop("calls"))
            return cls(triple=None if triple is None else StabilityTriple(**triple), calls=calls, **document)
        except (TypeError, KeyError, AttributeError, orjson.JSONDecodeError) as error:
            raise ValueError(f"not a judgement: {error}") from error


#: Schema name of a record of judgements in the topic `scored`.
SCHEMA_NAME = "judgements/1"
_SCHEMA = pa.schema([("id", pa.string()), ("judgement", pa.binary())])
#: Bytes of judgements in one record; brokers accept 1 MiB by default.
RECORD_BYTES = 400_000


def judgement_records(judgements: Sequence[Judgement]) -> Iterator[bytes]:
    """Yield judgements as records of the topic `scored`: Arrow IPC, each small enough for a broker."""
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
        ValueError: The record has another form.
    """
    if not record:
        return []  # a record with headers only
    try:
        table = pa.ipc.open_stream(record).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise ValueError(f"not a record of judgements: {error}") from error
    if not table.schema.equals(_SCHEMA):
        raise ValueError("not a record of judgements: it has other columns")
    return [Judgement.from_json(value) for value in table.column("judgement").to_pylist()]
