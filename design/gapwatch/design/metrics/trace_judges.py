"""Drafts judges of agents and chains: whether an answer rests on what tools and searches gave."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from gapwatch.design.architecture.claimed_code import ClaimedCode
from gapwatch.design.architecture.component_names import snake
from gapwatch.design.architecture.held_functions import AGENT
from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.architecture.prompts import Prompt
from gapwatch.design.architecture.reply_flow import is_exchange_seen
from gapwatch.design.metrics.catalog import metric_name
from gapwatch.design.metrics.judge_criteria import shows_pictures, support_question
from gapwatch.design.metrics.judge_drafts import OF_SUPPORT, STEPS_OF_AGENT, exchange_of, rubric_of
from gapwatch.design.metrics.metric_design import MetricDesign
from gapwatch.design.metrics.prompt_demands import (
    answers_from_found,
    demand_of,
    is_for_statements,
    worth_of,
    writes_sql,
)
from gapwatch.design.metrics.searches.agent_evidence import AgentEvidence
from gapwatch.design.metrics.searches.agent_runs import last_asker
from gapwatch.design.metrics.searches.search_chains import FoundLine, search_chain
from gapwatch.design.metrics.spans import OF_EXCHANGE, IntegrationPoint
from gapwatch.design.patterns.code_walk import callee_text, walk
from gapwatch.design.patterns.library_uses import CodePlace
from gapwatch.design.patterns.model_calls import CALLS
from gapwatch.design.source.ir import call_line, is_call, keywords_of
from gapwatch.design.source.program import last_name
from gapwatch.scorers.portfolio.polarity import BY_THE_CLAIM

#: Most calls from an agent to what its tools ask.
_MAX_HOPS = 6
#: Most lines of evidence that a judge names.
_MOST = 4
#: A reply that calls tools, as it is recorded, and values of `tool_choice` by which a model need not.
_CALLS_TOOLS = r'^\[\{"(name|arguments)":'
_FREE = (("k", "auto"), ("k", "none"), ("k", None))
#: What a tool gave, in the forms in which models are sent it, and the code that writes them.
_GIVEN_BY_TOOL = (
    r'"(role|type)\\*"\s*:\s*\\*"(tool|function|ipython|tool[-_](result|return)|tool_call_response|function_response'
    r'|\w+_call_output)\\*"|"(tool_call_id|tool_use_id|toolResult|function_?[rR]esponse)\\*"\s*:\s*[^\sn]'
    r"|\bObservation: \S|<(tool|function)_(result|response|output)s?\b"
)
_WRITES_RESULT = re.compile(
    rb"""role["']?\]?\s*[:=]\s*["'](tool|function)["']|["']tool_result["']|tool_call_id|tool_use_id|ToolMessage|ToolNode"""
    rb"""|function_call_output|function_?[rR]esponse|FunctionResponse|toolResult|Observation: """
)
#: Names of tools that run SQL.
_RUNS_SQL = re.compile(r"^_?(a?run|execute|exec|query)_sql(_query|_tool)?$")
#: Demand of a prompt to state nothing but what was found.
_GROUNDED = 1.0
#: Names of agents and engines that a function makes for others to ask.
_IS_MADE = re.compile(r"(Agent|AgentExecutor|QueryEngine|ChatEngine|Chain|RetrievalQA)$|^as_(query|chat)_engine$")


#: Names of responses that are sent piece by piece.
_IS_STREAM = re.compile(r"^(Streaming|EventSource|Sse|StreamingHttp)\w*Response$|^stream_with_context$")


@dataclass(frozen=True)
class _Agent:
    """An agent.

    Attributes:
        symbol: Its function, or the module that makes it.
        place: Line of its loop, or of the call that makes it.
        is_made: Whether it is only made there.
    """

    symbol: str
    place: CodePlace
    is_made: bool = False


class TraceJudges:
    """Judges of the agents of a pipeline.

    Args:
        architecture: The components.
        prompts: Prompts by component.
        points: Spans that can be emitted.
        code: The analysed code.
    """

    def __init__(
        self,
        architecture: Architecture,
        prompts: dict[str, list[Prompt]],
        points: list[IntegrationPoint],
        code: ClaimedCode,
    ) -> None:
        self._architecture = architecture
        self._prompts = prompts
        self._points = points
        self._code = code
        self._evidence = AgentEvidence(architecture, code)

    def of(self, component: ComponentDraft) -> list[MetricDesign]:
        """Return the judges of the first agent of a component that has tools.

        What a loop sends is read with its reply, whether or not its prompt is known.
        """
        prompts = [p for p in self._prompts[component.id] if not STEPS_OF_AGENT.search(p.text)]
        for agent in self._agents(component):
            mine = [
                p for p in prompts if p.symbol == agent.symbol or p.symbol.startswith(f"{agent.symbol}.")
            ] or prompts
            if agent.is_made and (not mine or mine[0].place in self._of_loops):
                continue
            found = self._evidence.of(agent.symbol)
            if not found and any(loop.symbol == agent.symbol and loop.kind == "library" for loop in component.loops):
                found = self._evidence.of_libraries
            if not found and any(loop.symbol == agent.symbol and loop.told for loop in component.loops):
                found = self._evidence.of_classes
            out = []
            if found and (asker := self._asks_with(component, agent, mine)) is not None:
                out.append(self._grounded(component, asker, mine, found))
            if mine and self._has_sql(agent.symbol, mine):
                out.append(self._of_sql(component, agent, mine, found))
            # Without a span of the agent or of a tool there is nothing to read.
            if out := [made for made in out if made.spans]:
                return out
        return self._of_chains(component, prompts)

    def _asks_with(self, component: ComponentDraft, agent: _Agent, prompts: list[Prompt]) -> _Agent | None:
        """Return the function below which the last call of an agent's run is seen, with what its tools gave."""
        asking = [agent.symbol]
        if agent.is_made:
            own = [h.symbol for h in component.hits if h.pattern == "calls_llm" and h.kind == "direct"]
            asking = [agent.symbol] if agent.symbol in own else sorted({*own})
        asking = [s for s in asking if is_for_statements(s, prompts[0].text if prompts else "")]
        # Which of its calls is the last one, nobody can say.
        asker = last_asker(self._code, asking[0]) if len(asking) == 1 else None
        if asker is None or not is_exchange_seen(self._code, asker):
            return None
        if asker != asking[0]:
            self._ask_for(component, asker)
        points = {p.symbol for p in self._points if p.component == component.id}
        return _Agent(asker, agent.place, agent.is_made) if asker in points else None

    def _ask_for(self, component: ComponentDraft, symbol: str) -> None:
        """Ask for a span of a function that has none."""
        subject = self._code.subject(symbol)
        if subject is None or any(p.symbol == symbol for p in self._points):
            return
        name = ".".join(symbol.split(".")[-2:] if subject.info.owner >= 0 else [subject.ir.name])
        place = CodePlace(subject.program.path(subject.info), subject.ir.line, subject.ir.end)
        why = ["the answer of an agent ends in it"]
        self._points.append(IntegrationPoint(component.id, name, "llm", symbol, place, ["input", "output"], why))

    def _of_chains(self, component: ComponentDraft, prompts: list[Prompt]) -> list[MetricDesign]:
        """Return the judge of the chains that put a search before an answer; none where an agent runs them."""
        found = []
        asking = [h for h in component.hits if h.pattern == "calls_llm"]
        for subject in filter(None, map(self._code.subject, component.symbols if asking else ())):
            own = [p.place for p in prompts if p.symbol == subject.symbol]
            is_of_agent = subject.symbol in self._below_loops or not self._of_loops.isdisjoint(own)
            if not is_of_agent and (searched := search_chain(subject)) is not None:
                found.append(searched)
        if found:
            asker, place = self._asker(found[0].symbol), found[0].place
            # Another function that asks has an answer of its own.
            answering = {h.symbol for h in asking} - {asker, found[0].symbol}
            found = [f for f in found if f.symbol not in answering]
        else:
            asker, place, found = self._asks_what_is_made_elsewhere(component)
        if not found:
            return []
        senders = {asker, *(f.symbol for f in found)}
        mine = [p for p in prompts if p.symbol in senders and is_for_statements(asker, p.text)]
        if not any(h.symbol == asker for h in asking) and any(
            is_exchange_seen(self._code, h.symbol) and answers_from_found([p for p in prompts if p.symbol == h.symbol])
            for h in asking
        ):
            # Who asks with the chain is judged by what the model is shown.
            return []
        direct = {h.symbol: CodePlace(h.path, h.line) for h in asking if h.kind == "direct"}
        if all(h.symbol != asker for h in asking) and len(direct) == 1:
            # It asks with a chain that was made when the program started.
            ((asker, place),) = direct.items()
        if not is_exchange_seen(self._code, asker) or shows_pictures(asker, []):
            return []
        judge = self._grounded(component, _Agent(asker, place), mine, found, "passages")
        return [judge] if judge.spans else []

    def _asks_what_is_made_elsewhere(self, component: ComponentDraft) -> tuple[str, CodePlace, list[FoundLine]]:
        """Return who asks an agent or engine that another component makes: `cache.agent.chat(question)`."""
        for hit in component.hits:
            made = hit.evidence.rpartition(".")[0]
            is_direct = hit.pattern == "calls_llm" and hit.kind == "direct"
            is_made = is_direct and any(map(_IS_MADE.search, made.split(".")))
            found = next((f for names, f in self._made_elsewhere if made in names), []) if is_made else []
            if found:
                return hit.symbol, CodePlace(hit.path, hit.line), found
        return "", CodePlace("", 0), []

    @cached_property
    def _made_elsewhere(self) -> list[tuple[frozenset[str], list[FoundLine]]]:
        """Chains of searches of components that ask no model: names of the library that make them, and their lines."""
        sites, out = self._code.material.sites, []
        for component in self._architecture.components:
            if any(h.pattern == "calls_llm" for h in component.hits):
                continue
            for subject in filter(None, map(self._code.subject, component.symbols)):
                if (searched := search_chain(subject)) is not None:
                    near = [subject.symbol, *(e.dst for e in sites.callees.get(subject.symbol, ()))]
                    names = frozenset(name for symbol in near for name in sites.externals_of(symbol))
                    out.append((names, [searched]))
        return out

    def _asker(self, symbol: str) -> str:
        """Return the function that asks with a chain: the one that makes it, or else the only one that gets it."""
        hits = self._code.material.hits_of
        if any(h.pattern == "calls_llm" for h in hits(symbol)):
            return symbol
        callers = {e.src for e in self._code.material.sites.callers[symbol] if e.kind in CALLS}
        asking = [c for c in callers if any(h.pattern == "calls_llm" for h in hits(c))]
        return asking[0] if len(asking) == 1 else symbol

    # -- agents ------------------------------------------------------------------------------------------------

    def _agents(self, component: ComponentDraft) -> list[_Agent]:
        out = [_Agent(loop.symbol, CodePlace(loop.path, loop.line)) for loop in component.loops]
        for symbol in component.symbols:
            subject = self._code.subject(symbol)
            for call in subject.calls if subject is not None and not out else ():
                if subject is None or "gent" not in (text := callee_text(call)):
                    continue
                is_maker = bool(AGENT.search(last_name(call))) or "Agent" in text
                if is_maker and subject.reach(call).capability == "framework":
                    out.append(_Agent(symbol, CodePlace(subject.program.path(subject.info), call_line(call)), True))
        return out

    @cached_property
    def _writes_results(self) -> bool:
        """True if code of the application, or a library, sends what tools gave in a form that can be told."""
        files = [f for f in self._code.material.program.files if f is not None and not f.tags]
        is_of_library = any(loop.kind == "library" for c in self._architecture.components for loop in c.loops)
        return is_of_library or any(_WRITES_RESULT.search(f.source) for f in files)

    @cached_property
    def _of_loops(self) -> set[CodePlace]:
        """Prompts of agents whose run is known."""
        return {p.place for c in self._architecture.components if c.loops for p in self._prompts[c.id]}

    @cached_property
    def _below_loops(self) -> set[str]:
        """Functions that search for an agent whose run is known."""
        loops = [loop.symbol for c in self._architecture.components for loop in c.loops]
        return {found.symbol for symbol in loops for found in self._evidence.of(symbol)}

    # -- judges ------------------------------------------------------------------------------------------------

    def _grounded(
        self,
        component: ComponentDraft,
        agent: _Agent,
        prompts: list[Prompt],
        found: list[FoundLine],
        what: str = "tools",
    ) -> MetricDesign:
        """Return the judge that reads what the model was last sent, with what was found for it, and its reply."""
        where = ", ".join(str(f.place) for f in found[:_MOST])
        given = f"what its {'searches' if what == 'passages' else 'tools and searches'} gave ({where})"
        made = self._made(component, agent, prompts, found, "", f"rests_on_its_{what}")
        criterion = support_question(agent.symbol, given)
        made.rubric, made.claim = rubric_of(criterion, list(OF_EXCHANGE), [], OF_SUPPORT)
        own = [p.name for p in self._points if p.component == component.id and p.symbol == agent.symbol]
        named = [*own[:1], *(self._streams_of(component, agent.symbol) if own else [])]
        made.spans, made.fields, made.is_of_trace, made.tools = named, list(OF_EXCHANGE), False, []
        made.when = exchange_of(*named) if own else None
        made.valid_when = "the last model call below the function is the one that writes the answer"
        if made.when is not None and what == "tools" and not self._must_call(agent.symbol):
            made.when["all_of"].append({"field": OF_EXCHANGE[1], "not_matches": _CALLS_TOOLS})
            if agent.is_made or self._writes_results:
                # Without a call of a tool an agent talks, or answers from what it knows.
                made.when["all_of"].append({"field": OF_EXCHANGE[0], "matches": _GIVEN_BY_TOOL})
                made.valid_when += "; where no tool was called, nothing is judged"
        made.concern, made.purpose = "groundedness", "finds statements that no tool and no search gave"
        made.evidence_from = [f.place for f in found[:_MOST]]
        made.demand = max(worth_of(agent.symbol, [p.text for p in prompts]), _GROUNDED)
        return made

    def _streams_of(self, component: ComponentDraft, symbol: str) -> list[str]:
        """Return the spans of the generators by which a function answers piece by piece, after it has ended."""
        subject = self._code.subject(symbol)
        answered = [e for r in (subject.returned if subject is not None else ()) for e in walk(r) if is_call(e)]
        if subject is None or subject.ir.is_generator or not any(_IS_STREAM.search(last_name(e)) for e in answered):
            return []
        given = {edge.dst for e in answered for edge in subject.inside(e)}
        points = [p for p in self._points if p.component == component.id and p.symbol in given]
        asking = {h.symbol for h in component.hits if h.pattern == "calls_llm" and h.kind == "direct"}
        every = [(p.name, self._code.subject(p.symbol)) for p in points if p.symbol in asking]
        return [name for name, one in every if one is not None and one.ir.is_generator]

    def _must_call(self, symbol: str) -> bool:
        """Return whether a model may only call tools, so that the arguments of the last call are its answer."""
        subject = self._code.subject(symbol)
        named = [(n, v) for call in (subject.calls if subject is not None else ()) for n, v in keywords_of(call)]
        return any(name == "tool_choice" and value not in _FREE for name, value in named)

    def _has_sql(self, symbol: str, prompts: list[Prompt]) -> bool:
        """Return whether an agent writes SQL, by its prompts, or by a tool that runs what it writes."""
        if writes_sql(symbol, prompts):
            return True
        callees, seen, frontier = self._code.material.sites.callees, {symbol}, [symbol]
        for _ in range(_MAX_HOPS):
            below = {e.dst for src in frontier for e in callees.get(src, ())} - seen
            if any(_RUNS_SQL.search(snake(s.rpartition(".")[2])) for s in below):
                return True
            seen |= below
            frontier = sorted(below)
        return False

    def _of_sql(
        self, component: ComponentDraft, agent: _Agent, prompts: list[Prompt], found: list[FoundLine]
    ) -> MetricDesign:
        criterion = (
            f"Does the SQL that the agent of `{agent.symbol}` ran or gave in this trace answer the question that was "
            "asked, with tables, columns, joins, filters and aggregates as the schema shown to it means them?"
        )
        made = self._made(component, agent, prompts, found, criterion, "sql_answers_the_question")
        made.purpose = "finds SQL that runs and answers another question"
        made.demand = max(made.demand, _GROUNDED) + 1
        return made

    def _made(
        self,
        component: ComponentDraft,
        agent: _Agent,
        prompts: list[Prompt],
        found: list[FoundLine],
        criterion: str,
        family: str,
    ) -> MetricDesign:
        rubric, claim = rubric_of(criterion, ["trace.transcript"], prompts)
        own = [p for p in self._points if p.component == component.id and p.symbol == agent.symbol]
        symbols = {f.symbol for f in found}
        tools = [p for p in self._points if p.symbol in symbols and p not in own]
        is_counted = any(p.component == component.id for p in self._points)
        evidence = [f"{agent.place} agent of {agent.symbol}"]
        evidence += [f"{p.place} prompt{' ' + p.name if p.name else ''} of {p.symbol}" for p in prompts[:2]]
        evidence += [f"{f.place} {f.what} in {f.symbol}" for f in found[:_MOST]]
        return MetricDesign(
            name=metric_name(f"{component.id}_{family}"),
            component=component.id,
            source="judge",
            family=family,
            purpose="",
            concern="quality",
            claim=claim,
            evidence=evidence,
            symbols=[agent.symbol],
            places=[agent.place],
            pattern="calls_llm",
            spans=sorted({p.name for p in (*own, *tools)}),
            fields=["input", "output"],
            when={"field": f"trace.count({component.id})", "range": {"min": 1}} if is_counted else None,
            valid_when="the spans of the trace hold what tools were asked, what they gave, and the last answer",
            better="lower",
            direction_evidence=BY_THE_CLAIM,
            severity="ticket",
            action="read the judge's justifications beside the trace; compare by model and release",
            targets=["in_process", "dashboard", "alert"],
            rubric=rubric,
            prompts=[p.place for p in prompts[:_MOST]],
            questions=["q-pipeline-judge-model"],
            is_exported=False,
            demand=max((demand_of(p.text) for p in prompts), default=0.0),
            is_of_trace=True,
            tools=sorted({p.component for p in tools} - {component.id}),
        )
