"""Spans that a program emits already: names as literals, instrumented libraries, and the metrics that they answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gapwatch.design.analysis import build
from gapwatch.design.instrumentation.instrumentation import Instrumentation, find_instrumentation
from gapwatch.design.patterns.call_sites import CallSites
from gapwatch.design.patterns.libraries import default_catalog
from gapwatch.design.reports.export_portfolio import portfolio_data, portfolio_yaml
from gapwatch.design.reports.export_spans import spans_data
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import Design, run_design
from gapwatch.scorers.loading.load import parse_portfolio
from tests.design.source_tree import write_tree


def _found(folder: Path, files: dict[str, str]) -> Instrumentation:
    scan = scan_repository(write_tree(folder, files))
    program, graph = build(scan)
    return find_instrumentation(program, CallSites(graph, default_catalog()), scan.root)


#: Source, then (library, name of the span, function, line, kind) of its only span, as its library's own code names it.
WAYS = {
    "langfuse": (
        "from langfuse import observe\n@observe(name='answer', as_type='generation')\ndef f(q):\n    return q\n",
        ("Langfuse", "answer", "app.f", 2, "llm"),
    ),
    "langfuse, bare": (
        "from langfuse.decorators import observe\n@observe()\nasync def retrieve(q):\n    return q\n",
        ("Langfuse", "retrieve", "app.retrieve", 2, "chain"),
    ),
    "langfuse, no call": (
        "from langfuse import observe as seen\nclass A:\n    @seen\n    def ask(self):\n        return 1\n",
        ("Langfuse", "ask", "app.A.ask", 4, "chain"),
    ),
    "openllmetry": (
        "from traceloop.sdk.decorators import task\n@task(name='generate')\ndef f(q):\n    return q\n",
        ("OpenLLMetry", "generate.task", "app.f", 2, "chain"),
    ),
    "openllmetry, bare": (
        "from traceloop.sdk import decorators as t\nclass A:\n    @t.tool()\n    def look(self):\n        return 1\n",
        ("OpenLLMetry", "A.look.tool", "app.A.look", 3, "tool"),
    ),
    "opentelemetry": (
        "from opentelemetry import trace\ntracer = trace.get_tracer(__name__)\ndef f(q):\n"
        "    with tracer.start_as_current_span('search') as span:\n        return q\n",
        ("OpenTelemetry", "search", "app.f", 4, ""),
    ),
    "opentelemetry, decorator": (
        "from opentelemetry import trace\n@trace.get_tracer('x').start_as_current_span('search')\ndef f(q):\n"
        "    return q\n",
        ("OpenTelemetry", "search", "app.f", 2, ""),
    ),
    "openinference": (
        "from phoenix.otel import register\ntracer = register().get_tracer(__name__)\n@tracer.agent(name='booking')\n"
        "def f(q):\n    return q\n",
        ("OpenInference", "booking", "app.f", 3, "agent"),
    ),
    "logfire": (
        "import logfire\ndef f(q):\n    with logfire.span('answer {question=}', question=q):\n        return q\n",
        ("Logfire", "answer {question=}", "app.f", 3, ""),
    ),
    "logfire, decorator": (
        "import logfire\n@logfire.instrument\ndef f(q):\n    return q\n",
        ("Logfire", "Calling app.f", "app.f", 2, ""),
    ),
    "mlflow": (
        "import mlflow\n@mlflow.trace(name='rank', span_type='RERANKER')\ndef f(q):\n    return q\n",
        ("MLflow", "rank", "app.f", 2, "rerank"),
    ),
    "langsmith": (
        "from langsmith import traceable\n@traceable(run_type='retriever')\ndef search(q):\n    return q\n",
        ("LangSmith", "search", "app.search", 2, "retrieval"),
    ),
    "openai agents": (
        "from agents import Agent\nfrom openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor\n"
        "OpenAIAgentsInstrumentor().instrument()\nbooking = Agent(name='booking_agent')\n",
        ("OpenAI Agents", "booking_agent", "app", 4, "agent"),
    ),
    "pydantic-ai, named by its variable": (
        "import logfire\nfrom pydantic_ai import Agent\nlogfire.instrument_pydantic_ai()\ntriage = Agent('openai:x')\n",
        ("pydantic-ai", "invoke_agent triage", "app", 4, "agent"),
    ),
    "langgraph": (
        "from langgraph.graph import StateGraph\nfrom langfuse.langchain import CallbackHandler\n"
        "def ask(state):\n    return state\n"
        "def build():\n    g = StateGraph(dict)\n    g.add_node('generate', ask)\n    return g, CallbackHandler()\n",
        ("LangGraph", "generate", "app.ask", 7, "chain"),
    ),
    "langchain": (
        "from langchain_core.runnables import RunnableLambda\nfrom langfuse.langchain import CallbackHandler\n"
        "chain = RunnableLambda(len).with_config(run_name='answer')\nhandler = CallbackHandler()\n",
        ("LangChain", "answer", "app", 3, "chain"),
    ),
    "crewai": (
        "import openlit\nfrom crewai import Agent\nopenlit.init()\nwriter = Agent(role='Writer', goal='g')\n",
        ("CrewAI", "Writer.agent", "app", 4, "agent"),
    ),
    "gapwatch": (
        "from gapwatch.publisher import TracePublisher\np = TracePublisher('x')\n"
        "@p.span('retriever', kind='retrieval')\ndef f(q):\n    return q\n",
        ("Gapwatch", "retriever", "app.f", 3, "retrieval"),
    ),
}


@pytest.mark.parametrize("way", sorted(name for name, case in WAYS.items() if case is not None))
def test_a_literal_that_names_a_span_is_a_fact_with_its_line(way: str, tmp_path: Path) -> None:
    case = WAYS[way]
    assert case is not None
    source, (library, name, symbol, line, kind) = case

    (span,) = _found(tmp_path, {"app.py": source}).spans

    assert (span.library, span.names[0], span.symbol, span.place.line, span.kind) == (library, name, symbol, line, kind)


#: Code that looks like a span and makes none.
NO_WAYS = {
    "a graph of another library": "import networkx\ng = networkx.Graph()\ng.add_node('a', f)\n",
    "nodes that nothing traces": (
        "from langgraph.graph import StateGraph\ndef f(s):\n    return s\ng = StateGraph(dict)\ng.add_node('a', f)\n"
    ),
    "a function of one's own": "def observe(name):\n    return len\n@observe(name='a')\ndef f():\n    return 1\n",
    "a person": "class Agent:\n    pass\nbond = Agent(name='bond')\n",
    "a part of a page": "import soup\nwith soup.span('title') as s:\n    pass\n",
    "a setting that is off": "import os\n",
    "an agent that nothing traces": "from pydantic_ai import Agent\na = Agent('m')\n@a.tool\ndef f(x):\n    return x\n",
}


@pytest.mark.parametrize("case", sorted(NO_WAYS))
def test_code_that_only_looks_like_it_names_no_span(case: str, tmp_path: Path) -> None:
    found = _found(tmp_path, {"app.py": NO_WAYS[case], ".env.example": "LANGSMITH_TRACING=false\n"})

    assert not found.spans
    assert not found.libraries


def test_a_decorator_that_a_module_of_the_repository_hands_on_is_followed(tmp_path: Path) -> None:
    files = {
        "app/__init__.py": "",
        "app/tracing.py": "from langfuse import observe\n",
        "app/answer.py": "from app.tracing import observe\n@observe(name='answer')\ndef f(q):\n    return q\n",
    }

    (span,) = _found(tmp_path, files).spans

    assert (span.names, span.place.path) == (("answer",), "app/answer.py")


@pytest.mark.parametrize(
    ("source", "libraries"),
    [
        (
            "from openinference.instrumentation.openai import OpenAIInstrumentor\nOpenAIInstrumentor().instrument()\n",
            "openai",
        ),
        ("from traceloop.sdk import Traceloop\nTraceloop.init(app_name='x')\n", "*"),
        ("import mlflow\nmlflow.anthropic.autolog()\n", "anthropic"),
        ("import logfire\nlogfire.instrument_openai()\n", "openai"),
        ("from langfuse.openai import OpenAI\nclient = OpenAI()\n", "openai"),
        ("import os\nos.environ['LANGSMITH_TRACING'] = 'true'\n", "langchain"),
    ],
)
def test_a_line_that_instruments_a_library_is_found(source: str, libraries: str, tmp_path: Path) -> None:
    found = _found(tmp_path, {"app.py": source})

    assert [one.libraries[0] for one in found.libraries] == [libraries]


ANSWERER = """\
from openai import OpenAI
from langfuse import observe
from openinference.instrumentation.openai import OpenAIInstrumentor

OpenAIInstrumentor().instrument()


class Answerer:
    def __init__(self):
        self.client = OpenAI()

    @observe(name="write answer")
    def ask(self, question):
        try:
            reply = self.client.chat.completions.create(model="m", messages=[{"role": "user", "content": question}])
        except TimeoutError:
            return "Please ask again."
        return reply.choices[0].message.content
"""


@pytest.fixture(scope="module")
def instrumented(tmp_path_factory: pytest.TempPathFactory) -> Design:
    return run_design(scan_repository(write_tree(tmp_path_factory.mktemp("repo"), {"answering.py": ANSWERER})))


def test_a_component_keeps_the_name_of_its_span_and_gets_a_rule_with_its_line(instrumented: Design) -> None:
    data = portfolio_data(instrumented)

    assert [c["id"] for c in data["components"]] == ["write_answer"]
    assert data["spans"]["components"] == [
        {"component": "write_answer", "span": "write answer", "evidence": "answering.py:12"}
    ]
    parse_portfolio(portfolio_yaml(data, instrumented), "portfolio.yaml")


def test_metrics_of_the_model_read_the_spans_of_the_instrumented_client(instrumented: Design) -> None:
    metrics = {m.family: m for m in instrumented.metrics}

    assert metrics["finish_reason"].is_answered == "yes"
    assert metrics["finish_reason"].when == {"field": "kind", "one_of": ["llm"]}
    # The span of the function has the answer, too, and is the one to ask.
    assert metrics["answer_present"].when == {"field": "name", "one_of": ["write answer"]}


def test_what_no_span_says_is_told_with_what_is_missing(instrumented: Design) -> None:
    failures = next(m for m in instrumented.metrics if m.family == "failure_answers")

    assert failures.is_answered == "no"
    assert failures.unanswered == {"Answerer.ask": "its span has no attributes.answer_outcome"}
    assert spans_data(instrumented, "p")["metrics"][failures.name]["answered"] == "no"


def test_no_span_is_asked_for_where_every_metric_is_answered(tmp_path: Path) -> None:
    source = ANSWERER.replace("        try:\n    ", "").replace(
        '        except TimeoutError:\n            return "Please ask again."\n', ""
    )
    made = run_design(scan_repository(write_tree(tmp_path, {"answering.py": source})))

    unanswered = {m.family for m in made.metrics if m.is_exported and m.is_answered != "yes"}
    told = "no instrumentor of OpenInference sends a price, tells an empty reply from none, or counts those that fail"
    assert unanswered <= {"model_cost", "answer_present", "unanswered"}, told
    allowed = {f"write_answer_{name}" for name in ("model_cost", "cost_per_answer", "present", "unanswered")}
    assert all(set(p.blind) <= allowed for p in made.points)


def test_calls_that_nobody_can_tell_apart_answer_no_metric(tmp_path: Path) -> None:
    ask = "    return OpenAI().chat.completions.create(model='m', messages=[q]).choices[0].message.content\n"
    start = "from openai import OpenAI\nimport openlit\nopenlit.init()\n"
    made = run_design(
        scan_repository(
            write_tree(
                tmp_path, {"writer.py": f"{start}def write(q):\n{ask}", "critic.py": f"{start}def criticise(q):\n{ask}"}
            )
        )
    )

    reasons = {why for m in made.metrics if m.family == "finish_reason" for why in m.unanswered.values()}
    assert reasons == {
        f"spans of kind llm without a named span around them are also those of {other}"
        for other in ("writer", "criticise")
    }
    assert {m.is_answered for m in made.metrics} == {"no"}


def test_a_repository_without_instrumentation_has_no_part_spans(tmp_path: Path) -> None:
    source = (
        "from openai import OpenAI\ndef ask(q):\n    return OpenAI().chat.completions.create(model='m', messages=[q])\n"
    )
    data = portfolio_data(run_design(scan_repository(write_tree(tmp_path, {"app.py": source}))))

    assert "spans" not in data
    assert yaml.safe_dump(data)


def test_a_rule_that_takes_all_calls_of_a_kind_leaves_those_below_a_named_span_to_it(tmp_path: Path) -> None:
    ask = "    return OpenAI().chat.completions.create(model='m', messages=[q]).choices[0].message.content\n"
    start = "from openai import OpenAI\nfrom langfuse import observe\nimport openlit\nopenlit.init()\n"
    files = {
        "writer.py": f"{start}@observe(name='write')\ndef write(q):\n{ask}",
        "critic.py": f"{start}def criticise(q):\n{ask}",
    }
    rules = run_design(scan_repository(write_tree(tmp_path, files))).present.rules

    assert [(r.component, r.conditions) for r in rules] == [
        ("write", {"span": "write"}),
        ("write", {"kind": "llm", "under": "write"}),
        ("criticise", {"kind": "llm"}),
    ]
