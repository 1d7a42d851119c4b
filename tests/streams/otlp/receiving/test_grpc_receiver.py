"""The gRPC receiver, asked by the real exporters."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc import LogsServiceStub
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import MetricsServiceStub
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import TraceServiceStub

from gapwatch.scorers.errors import UsageError
from gapwatch.streams.otlp.receiving.grpc_receiver import GrpcReceiver
from gapwatch.streams.otlp.receiving.http_receiver import OtlpAddress
from gapwatch.streams.otlp.receiving.intake import BusyReceiverError, OtlpRequest, RefusedRequestError, Signal, Taken


class Listed:
    """Intake that keeps requests in a list, or refuses them."""

    def __init__(self) -> None:
        self.taken: list[OtlpRequest] = []
        self.refused: list[tuple[Signal, str]] = []
        self.dropped: list[Signal] = []
        self.answer: Taken | Exception = Taken()

    async def take(self, request: OtlpRequest) -> Taken:
        if isinstance(self.answer, Exception):
            raise self.answer
        self.taken.append(request)
        return self.answer

    def note_refused(self, signal: Signal, reason: str) -> None:
        self.refused.append((signal, reason))

    def note_dropped(self, signal: Signal) -> None:
        self.dropped.append(signal)


@pytest.fixture
def listed():
    intake = Listed()
    receiver = GrpcReceiver(OtlpAddress("127.0.0.1", 0), intake)
    receiver.start()
    with grpc.insecure_channel(receiver.address) as channel:
        yield intake, channel
    assert receiver.stop(10)


def request() -> ExportTraceServiceRequest:
    asked = ExportTraceServiceRequest()
    asked.resource_spans.add().scope_spans.add().spans.add(trace_id=b"1" * 16, span_id=b"2" * 8, name="x" * 5_000)
    return asked


@pytest.mark.parametrize("packed", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
def test_spans_are_taken_as_they_were_sent(listed, packed) -> None:
    intake, channel = listed
    TraceServiceStub(channel).Export(request(), compression=packed, timeout=10)
    LogsServiceStub(channel).Export(ExportLogsServiceRequest(), timeout=10)
    MetricsServiceStub(channel).Export(ExportMetricsServiceRequest(resource_metrics=[{}]), timeout=10)
    (taken,) = intake.taken
    assert ExportTraceServiceRequest.FromString(taken.body) == request()
    assert intake.dropped == [Signal.METRICS]


def test_rejected_spans_and_refusals_are_told(listed) -> None:
    intake, channel = listed
    stub = TraceServiceStub(channel)
    intake.answer = Taken(3, "bad_id")
    partial = stub.Export(request(), timeout=10).partial_success
    assert (partial.rejected_spans, partial.error_message) == (3, "bad_id")
    for answer, code, status in (
        (RefusedRequestError("no message"), grpc.StatusCode.INVALID_ARGUMENT, "400"),
        (BusyReceiverError("full"), grpc.StatusCode.UNAVAILABLE, "503"),
    ):
        intake.answer = answer
        with pytest.raises(grpc.RpcError) as told:
            stub.Export(request(), timeout=10)
        assert (told.value.code(), told.value.details()) == (code, str(answer))
        assert intake.refused[-1] == (Signal.TRACES, status)


def test_a_request_over_the_limit_is_refused_and_the_next_one_taken(listed) -> None:
    intake, channel = listed
    asked = request()
    asked.resource_spans[0].scope_spans[0].spans[0].name = "x" * (21 << 20)
    with pytest.raises(grpc.RpcError) as told:
        TraceServiceStub(channel).Export(asked, timeout=20)
    assert told.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    TraceServiceStub(channel).Export(request(), timeout=10)
    assert len(intake.taken) == 1


def test_with_a_token_nothing_is_taken_without_it() -> None:
    intake = Listed()
    receiver = GrpcReceiver(OtlpAddress("127.0.0.1", 0, "a-long-secret"), intake)
    receiver.start()
    with grpc.insecure_channel(receiver.address) as channel:
        stub = TraceServiceStub(channel)
        for given in ([], [("authorization", "Bearer wrong")]):
            with pytest.raises(grpc.RpcError) as told:
                stub.Export(request(), metadata=given, timeout=10)
            assert told.value.code() == grpc.StatusCode.UNAUTHENTICATED
        stub.Export(request(), metadata=[("authorization", "Bearer a-long-secret")], timeout=10)
    assert receiver.stop(10)
    assert len(intake.taken) == 1


def test_a_port_in_use_is_named(listed, tmp_path: Path) -> None:
    first = GrpcReceiver(OtlpAddress("127.0.0.1", 0), Listed())
    first.start()
    port = int(first.address.rpartition(":")[2])
    with pytest.raises(UsageError, match="--otlp-grpc"):
        GrpcReceiver(OtlpAddress("127.0.0.1", port), Listed()).start()
    assert first.stop(10)
