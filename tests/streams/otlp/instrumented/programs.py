"""Starts `program.py`, with the variables that its instrumentor reads."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.streams.otlp.instrumented.model_server import ModelServer

PROGRAM = Path(__file__).with_name("program.py")
#: Questions of each program; the first call fails.
QUESTIONS = 4


def start_program(
    python: str | Path, name: str, endpoint: str, server: ModelServer, program: Path = PROGRAM
) -> subprocess.Popen[str]:
    """Start a program whose spans go to `endpoint`; its first call fails."""
    server.fails |= {"gpt-4.1": 1, "claude-sonnet-4-5": 1}
    environment = {
        **os.environ, "OTEL_SERVICE_NAME": name, "PYTHONWARNINGS": "ignore", "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True", "TRACELOOP_TELEMETRY": "FALSE", "OPENAI_AGENTS_DISABLE_TRACING": "0",
        "LANGFUSE_HOST": endpoint, "LANGFUSE_PUBLIC_KEY": "pk-lf-0", "LANGFUSE_SECRET_KEY": "sk-lf-0",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc" if name.endswith("-grpc") else "http/protobuf",
    }  # fmt: skip
    return subprocess.Popen(
        [str(python), str(program), name, server.url, str(QUESTIONS)],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
