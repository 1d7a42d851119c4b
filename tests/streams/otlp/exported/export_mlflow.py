"""Traces of a small program from a real MLflow, as its users export them: one `Trace.to_json` a line.

python export_mlflow.py MODEL_SERVER FILE        (in an environment with mlflow and openai; a folder of its own)
"""

import sys
from contextlib import suppress
from pathlib import Path

import mlflow
from openai import OpenAI

server, file = sys.argv[1], sys.argv[2]
mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("support")
mlflow.openai.autolog()
client = OpenAI(base_url=server, api_key="no-key", max_retries=0)


@mlflow.trace(span_type="RETRIEVER")
def search(question: str) -> list[dict[str, object]]:
    """Return the documents that answer a question."""
    return [{"page_content": f"what is known of {question}", "id": "d1", "metadata": {"source": "handbook"}}]


@mlflow.trace(name="answer_question")
def answer(question: str, session: str) -> str:
    """Answer with one model, and with a second one where it fails."""
    mlflow.update_current_trace(metadata={"mlflow.trace.session": session, "mlflow.trace.user": "u-1"})
    context = search(question)[0]["page_content"]
    for model in ("gpt-4.1", "gpt-4.1-mini"):
        with suppress(Exception):
            reply = client.chat.completions.create(
                model=model,
                messages=[{"role": "system", "content": str(context)}, {"role": "user", "content": question}],
            )
            return reply.choices[0].message.content or ""
    raise RuntimeError("no model answered")


for number in range(4):
    answer(f"question {number}", f"s-{number // 2}")
mlflow.flush_trace_async_logging()
found = mlflow.search_traces(return_type="list")
Path(file).write_text("".join(trace.to_json() + "\n" for trace in found))
