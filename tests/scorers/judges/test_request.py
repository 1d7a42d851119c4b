"""JSON form of a judge request: stores and topics contain its bytes, so they must not change."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from gapwatch.scorers.judges.request import AwaitedComposite, JudgeRequest, OversizeRequest, read_request

COMPOSITE = (
    b'{"metric":"overall","metric_version":"v2","epoch":"1","pass_at":0.7,"weights":{"short":0.25,"faithful":0.75},'
    b'"worths":{"short":null},"awaited":["faithful"],"sampled_out":false,"decided":["pass"],"p_evaluated":0.5,'
    b'"rate":1.0,"keep":{"pass":0.1,"fail":1.0}}'
)
WRITTEN = (
    b'{"lane":"live","source_topic":"traces","source_partition":1,"source_offset":42,"span_index":3,'
    b'"metric":"faithful","metric_version":"v1","portfolio_sha":"abc","pipeline":"p","component":"c","trace_id":"t",'
    b'"span_id":"s","environment":null,"release":"r1","session_id":null,"tier":"gold","model":"gpt","p_evaluated":0.5,'
    b'"stratum":null,"policy":"fixed-1","inputs":{"output":"It was \xc3\xa9.","context":null},'
    b'"event_at":1774166403.25,"bucket":59138880,"epoch":"1","members":["one","two"],"quorum":2,"composites":['
    + COMPOSITE
    + b'],"judge":"two","passes_from":0.5}'
)


def test_reading_and_writing_give_the_same_bytes() -> None:
    request = JudgeRequest.from_json(WRITTEN)

    assert request.to_json() == WRITTEN
    assert JudgeRequest.from_json(request.to_json()) == request
    assert isinstance(request.composites[0], AwaitedComposite)
    assert request.question == ("abc", "faithful", "two")
    assert request.series_environment == "production"


def test_a_request_of_an_earlier_version_has_no_pass_position() -> None:
    earlier = JudgeRequest.from_json(WRITTEN.replace(b',"passes_from":0.5', b""))

    assert earlier.passes_from is None
    assert earlier.id == JudgeRequest.from_json(WRITTEN).id


def test_the_id_is_that_of_the_row_whatever_else_is_in_the_request() -> None:
    request = JudgeRequest.from_json(WRITTEN)
    other_judge = JudgeRequest.from_json(WRITTEN.replace(b'"judge":"two"', b'"judge":"one"'))

    assert request.id == "f8d923bdae1b363dcf2f578266631065"
    assert JudgeRequest.from_json(WRITTEN.replace(b"r1", b"r2")).id == request.id
    assert request.without_inputs().id == request.id
    assert other_judge.id != request.id


def test_without_its_inputs_a_request_is_the_same_but_for_them() -> None:
    request = JudgeRequest.from_json(WRITTEN)
    document = json.loads(request.without_inputs().to_json())

    assert document == {**json.loads(WRITTEN), "inputs": {}}
    with pytest.raises(FrozenInstanceError):
        request.judge = "three"  # type: ignore[misc]


def test_a_key_of_a_later_version_is_passed_over() -> None:
    later: dict[str, Any] = json.loads(WRITTEN)
    later["colour"] = later["composites"][0]["colour"] = "red"

    assert JudgeRequest.from_json(json.dumps(later).encode()) == JudgeRequest.from_json(WRITTEN)


@pytest.mark.parametrize("data", [b"", b"{", b"{}", b"[]", b"1", b'{"too_large": null}', WRITTEN[:-1]])
def test_what_is_no_request_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a judge request"):
        read_request(data)


def test_a_topic_may_hold_the_size_of_a_request_and_a_store_may_not() -> None:
    oversize = b'{"id":"j","too_large":2000000}'

    assert read_request(oversize) == OversizeRequest(2_000_000)
    with pytest.raises(ValueError, match="size"):
        JudgeRequest.from_json(oversize)
