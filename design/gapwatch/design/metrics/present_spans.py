"""Joins the spans that a program emits already to its components: whose they are, and which metrics they answer."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from gapwatch.design.architecture.model import Architecture, ComponentDraft
from gapwatch.design.callgraph.graph import CallGraph
from gapwatch.design.instrumentation.instrumentation import Instrumentation
from gapwatch.design.instrumentation.named_spans import NamedSpan
from gapwatch.design.metrics.spans import IntegrationPoint
from gapwatch.design.patterns.libraries import LibraryCatalog

#: Calls between a function and the function with the span around it, at most.
_MOST_CALLS = 8
#: Capabilities of calls that a client's instrumentor makes spans of, with the kind of the span.
_CLIENT_KINDS = {"llm_chat": "llm", "embedding": "embedding", "retrieval": "retrieval", "rerank": "rerank"}
_MARKS = str.maketrans({"[": "[[]", "*": "[*]", "?": "[?]"})


@dataclass(frozen=True)
class SpanRuleDraft:
    """Rule of the portfolio's part `spans`.

    Attributes:
        component: Id of the component.
        conditions: Conditions of the rule, as in the portfolio.
        evidence: Line that it rests on.
    """

    component: str
    conditions: dict[str, str]
    evidence: str


@dataclass
class PointSpans:
    """Spans that there are of one function.

    Attributes:
        own: Spans in which it runs, whose component is known.
        shared: Names of its spans that also belong to other components, so that nobody can tell them apart.
        client: Fields of the spans of the calls that it makes, by kind; only where their component is known.
        lost: Reason why spans of its calls cannot be told from those of other components; empty for none.
    """

    own: list[NamedSpan] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    client: dict[str, tuple[str, ...]] = field(default_factory=dict)
    lost: str = ""


@dataclass
class PresentSpans:
    """Spans that a program emits already, by component.

    Attributes:
        points: By the symbol of a function.
        rules: Rules of the portfolio, in the order in which they must stand.
        outside: Spans of no component.
    """

    points: dict[str, PointSpans] = field(default_factory=dict)
    rules: list[SpanRuleDraft] = field(default_factory=list)
    outside: list[NamedSpan] = field(default_factory=list)


def find_present_spans(
    points: list[IntegrationPoint],
    architecture: Architecture,
    graph: CallGraph,
    instrumentation: Instrumentation,
    catalog: LibraryCatalog,
) -> PresentSpans:
    """Return the spans of each function that there are, and the rules by which the mapping gives them their component.

    Args:
        points: Functions to ask for a span.
        architecture: Components.
        graph: The call graph.
        instrumentation: Spans that the program emits.
        catalog: Capabilities of library calls.
    """
    found = PresentSpans()
    if not instrumentation.spans and not instrumentation.libraries:
        return found
    search = _Search(architecture, graph, instrumentation, catalog)
    for point in points:
        found.points[point.symbol] = search.own_of(point)
    search.add_clients(points, found)
    found.rules = search.rules()
    found.outside = [s for s in instrumentation.spans if not s.is_native and search.component_of(s) is None]
    return found


class _Search:
    def __init__(
        self,
        architecture: Architecture,
        graph: CallGraph,
        instrumentation: Instrumentation,
        catalog: LibraryCatalog,
    ) -> None:
        self.instrumentation, self.catalog = instrumentation, catalog
        self.components = architecture.components
        self._parents = {s.id: s.parent for s in graph.symbols}
        self._owner = {s: c.id for c in architecture.components for s in c.symbols}
        self._by_path: dict[str, list[ComponentDraft]] = defaultdict(list)
        for component in architecture.components:
            for path in component.files:
                self._by_path[path].append(component)
        self._callers: dict[str, set[str]] = defaultdict(set)
        for edge in graph.edges:
            self._callers[edge.dst].add(edge.src)
        self._externals: dict[str, list[str]] = defaultdict(list)
        for external in graph.externals:
            self._externals[external.src].append(external.dotted)
        self._by_symbol: dict[str, list[NamedSpan]] = defaultdict(list)
        for span in instrumentation.spans:
            self._by_symbol[span.symbol].append(span)
        self._by_name: dict[str, set[str]] = defaultdict(set)
        for span in instrumentation.spans:
            self._by_name[span.literal].add(self.component_of(span) or "")
        self._kind_rules: list[SpanRuleDraft] = []
        self._own_kinds: list[SpanRuleDraft] = []

    def component_of(self, span: NamedSpan) -> str | None:
        """Return the component whose function runs in a span, or whose file holds an object of a module."""
        current = span.symbol
        while current:
            if current in self._owner:
                return self._owner[current]
            current = self._parents.get(current, "")
        holders = self._by_path.get(span.place.path, [])
        return holders[0].id if len(holders) == 1 else None

    def spans_of(self, symbol: str) -> list[NamedSpan]:
        """Return the spans in which a function runs; a function inside another runs in its span."""
        return self._by_symbol.get(symbol, [])

    def own_of(self, point: IntegrationPoint) -> PointSpans:
        made = PointSpans()
        for span in self.spans_of(point.symbol):
            if span.literal == point.component if span.is_native else self.condition_of(span) is not None:
                made.own.append(span)
            else:
                made.shared.append(span.literal)
        return made

    def condition_of(self, span: NamedSpan) -> dict[str, str] | None:
        """Return the conditions of the rule for a span, None where its name is that of other components, too."""
        name = span.literal if "*" in span.literal else span.literal.translate(_MARKS)
        if len(self._by_name[span.literal]) == 1:
            return {"span": name}
        around = [
            s
            for s in self.instrumentation.spans
            if s.place.path == span.place.path
            and s.kind == "agent"
            and len({o.place.path for o in self.instrumentation.spans if o.literal == s.literal}) == 1
        ]
        names = {s.literal for s in around if s.literal != span.literal}
        return {"span": name, "under": next(iter(names)).translate(_MARKS)} if len(names) == 1 else None

    # -- spans of clients ------------------------------------------------------------------------------------------

    def add_clients(self, points: list[IntegrationPoint], found: PresentSpans) -> None:
        """Add the spans of the calls that functions make, where it can be told whose they are."""
        asking: dict[tuple[str, str], set[str]] = defaultdict(set)
        around: dict[tuple[str, str], set[str]] = {}
        for component in self.components:
            for symbol in sorted({use.symbol for use in component.uses}):
                for kind in self._client_fields(component, symbol):
                    around[symbol, kind] = self._spans_around(symbol)
                    for owner in around[symbol, kind]:
                        asking[owner, kind].add(component.id)
        alone = {
            kind: {c for (_, k), found in asking.items() if k == kind for c in found} for _, kind in sorted(asking)
        }
        for point in points:
            component = next(c for c in self.components if c.id == point.component)
            made = found.points[point.symbol]
            for symbol in sorted({u.symbol for u in component.uses if _is_within(u.symbol, point.symbol)}):
                for kind, fields in self._client_fields(component, symbol).items():
                    owners = around[symbol, kind]
                    if len(alone[kind]) == 1 and "" in owners:
                        owners = {""}
                    shared = sorted(o for o in owners if len(asking[o, kind]) > 1)
                    if not shared:
                        made.client[kind] = fields
                        for owner in sorted(owners):
                            self._add_kind_rule(point, kind, owner)
                        continue
                    others = sorted({c for o in shared for c in asking[o, kind]} - {point.component})
                    below = ", ".join(filter(None, shared))
                    where = f"below {below}" if below else "without a named span around them"
                    made.lost = f"spans of kind {kind} {where} are also those of {', '.join(others)}"

    def _client_fields(self, component: ComponentDraft, symbol: str) -> dict[str, tuple[str, ...]]:
        """Return the fields of the spans of the calls that a function makes, by kind."""
        out: dict[str, tuple[str, ...]] = {}
        for use in component.uses:
            kind = _CLIENT_KINDS.get(use.capability)
            if kind is None or use.symbol != symbol or use.dotted.startswith("def "):
                continue
            named = [d for d in self._externals.get(use.symbol, ()) if self.catalog.capability(d) == use.capability]
            # A call whose receiver is not known belongs to a library that its file imports.
            for dotted in named or sorted(self.instrumentation.packages.get(use.place.path, ())):
                if fields := self.instrumentation.client_fields(dotted, kind):
                    out[kind] = fields
                    break
        return out

    def _spans_around(self, symbol: str) -> set[str]:
        """Return the literals of the nearest spans around a function, with "" where it can be called without any."""
        found: set[str] = set()
        seen, frontier = {symbol}, [symbol]
        for _ in range(_MOST_CALLS):
            following: set[str] = set()
            for current in frontier:
                mine = self.spans_of(current)
                outer = self._parents.get(current, "")
                if mine:
                    found.update(s.literal for s in mine)
                elif callers := (self._callers.get(current, set()) | ({outer} if outer in self._by_symbol else set())):
                    following |= callers
                else:
                    found.add("")
            frontier = sorted(following - seen)
            seen |= following
            if not frontier:
                break
        return found or {""}

    def _add_kind_rule(self, point: IntegrationPoint, kind: str, owner: str) -> None:
        spans = [s for s in self.instrumentation.spans if s.literal == owner]
        # The mapping gives a call to the step around it, unless a rule takes all calls of the kind.
        rules = self._own_kinds if owner and {self.component_of(s) for s in spans} == {point.component} else None
        rules = self._kind_rules if rules is None else rules
        conditions = {"kind": kind} | ({"under": owner.translate(_MARKS)} if owner else {})
        rule = SpanRuleDraft(point.component, conditions, str(point.place))
        if not any(r.component == rule.component and r.conditions == rule.conditions for r in rules):
            rules.append(rule)

    # -- rules -----------------------------------------------------------------------------------------------------

    def rules(self) -> list[SpanRuleDraft]:
        """Return the rules: those of names first, those with more conditions before, the catch-all of a kind last."""
        out: list[SpanRuleDraft] = []
        for span in self.instrumentation.spans:
            component, conditions = self.component_of(span), self.condition_of(span)
            if span.is_native or component is None or conditions is None:
                continue
            rule = SpanRuleDraft(component, conditions, str(span.place))
            if not any(r.component == component and r.conditions == conditions for r in out):
                out.append(rule)
        out.sort(key=lambda r: -len(r.conditions))
        # Libraries name the spans of searches themselves, and the mapping keeps such names.
        taken = {r.conditions["kind"] for r in self._kind_rules} | {"retrieval", "rerank"}
        found = [*self._kind_rules, *(r for r in self._own_kinds if r.conditions["kind"] in taken)]
        depth = {r.conditions["under"]: self._depth(r) for r in found if "under" in r.conditions}
        kinds = sorted(found, key=lambda r: -depth.get(r.conditions.get("under", ""), -1))
        return [*out, *kinds]

    def _depth(self, rule: SpanRuleDraft) -> int:
        """Return how many named spans can lie around the span of a rule: inner ones must match first."""
        spans = [s for s in self.instrumentation.spans if s.literal.translate(_MARKS) == rule.conditions["under"]]
        around: set[str] = set()
        for span in spans:
            for caller in self._callers.get(span.symbol, ()):
                around |= self._spans_around(caller)
        return len(around - {""})


def _is_within(symbol: str, outer: str) -> bool:
    return symbol == outer or symbol.startswith(f"{outer}.")
