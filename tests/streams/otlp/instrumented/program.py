"""A program as users have it: OpenTelemetry's SDK, an instrumentor and the OpenAI client; nothing of Gapwatch.

    program.py INSTRUMENTOR MODEL_SERVER [QUESTIONS]

Where spans go is told by OTEL_EXPORTER_OTLP_ENDPOINT alone.
"""

import sys
from contextlib import suppress

from openai import OpenAI
from opentelemetry import trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

name, server = sys.argv[1], sys.argv[2]
questions = int(sys.argv[3]) if len(sys.argv) > 3 else 3

if name.endswith("-grpc"):
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

provider, logs = TracerProvider(), LoggerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
trace.set_tracer_provider(provider)
set_logger_provider(logs)
if name.startswith("openinference"):
    from openinference.instrumentation.openai import OpenAIInstrumentor
elif name.startswith("openllmetry"):
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor
else:
    from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
OpenAIInstrumentor().instrument()

client = OpenAI(base_url=server, api_key="no-key", max_retries=0)
tracer = trace.get_tracer("support")
for number in range(questions):
    with tracer.start_as_current_span("answer_question"):
        for model in ("gpt-4.1", "gpt-4.1-mini"):
            with suppress(Exception):
                client.chat.completions.create(
                    model=model, messages=[{"role": "user", "content": f"question {number}"}]
                )
                break
provider.shutdown()
logs.shutdown()
