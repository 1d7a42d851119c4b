"""Spans of a small program from a real Phoenix, as its users export them: what its client reads, one span a line.

python export_phoenix.py MODEL_SERVER FOLDER        (in an environment with arize-phoenix and its instrumentor)
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

from openai import OpenAI
from openinference.instrumentation import using_session
from openinference.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from phoenix.client import Client

server, folder = sys.argv[1], Path(sys.argv[2])
url = "http://127.0.0.1:26006"
environment = {
    **os.environ, "PHOENIX_WORKING_DIR": str(folder / "phoenix"), "PHOENIX_HOST": "127.0.0.1",
    "PHOENIX_PORT": "26006", "PHOENIX_GRPC_PORT": "26007",
}  # fmt: skip
phoenix = subprocess.Popen([sys.executable, "-m", "phoenix.server.main", "serve"], env=environment)
for _ in range(400):
    with suppress(OSError):
        urllib.request.urlopen(url, timeout=5).close()
        break
    time.sleep(0.5)
provider = TracerProvider(
    resource=Resource({"openinference.project.name": "support", "service.name": "support"})
)  # fmt: skip
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{url}/v1/traces")))
OpenAIInstrumentor().instrument(tracer_provider=provider)
client = OpenAI(base_url=server, api_key="no-key", max_retries=0)
tracer = provider.get_tracer("support")

for number in range(4):
    with using_session(f"s-{number // 2}"), tracer.start_as_current_span("answer_question") as step:
        step.set_attribute("openinference.span.kind", "CHAIN")
        step.set_attribute("input.value", f"question {number}")
        with tracer.start_as_current_span("search") as found:
            found.set_attribute("openinference.span.kind", "RETRIEVER")
            found.set_attribute("retrieval.documents.0.document.content", f"what is known of {number}")
            found.set_attribute("retrieval.documents.0.document.score", 0.5)
        for model in ("gpt-4.1", "gpt-4.1-mini"):
            with suppress(Exception):
                client.chat.completions.create(
                    model=model, messages=[{"role": "user", "content": f"question {number}"}]
                )  # fmt: skip
                break

reader = Client(base_url=url)
for _ in range(60):
    spans = reader.spans.get_spans(project_identifier="support", limit=100)
    if len(spans) >= 13:
        break
    time.sleep(0.5)
(folder / "phoenix_spans.jsonl").write_text("".join(json.dumps(span) + "\n" for span in spans))
phoenix.terminate()
