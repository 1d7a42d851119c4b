"""Reads the YAML of portfolios and facts: strictly, within bounds, and with the line of every key.

It reads YAML 1.1 like PyYAML's safe loader, with three differences:

- dates and times stay texts;
- `1e5` and `1.0e5` are numbers, as in JSON and YAML 1.2 (YAML 1.1 requires a point and a signed exponent and would
  read a text, which every bound then refuses);
- it refuses tags, merge keys (`<<`), duplicate keys, keys that are not texts, a second document and numbers that are
  not finite.

Written out, all aliases of a file may add at most `MAX_VALUES` values.
The composer is Gapwatch's own, over PyYAML's events, for the bounds: libyaml's composer recurses until the process
crashes. The events come from libyaml, which is many times faster. The pure Python parser tries again what libyaml
refuses, and reads it or explains the error better.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import yaml

from gapwatch.scorers.errors import PortfolioError, Problem
from gapwatch.scorers.loading.problems import KeyPath, Place, ProblemList
from gapwatch.scorers.printable import shown

#: Bytes of one file. Each empty line takes 2 us to read; 500 metrics are about 300 KB.
MAX_BYTES = 2_000_000
#: Values of one file, and as many again by its aliases; a value takes about 35 us to read, a metric has 30 to 100.
MAX_VALUES = 100_000
#: Characters of a number. The time to read a sexagesimal number grows with the square of its length.
MAX_NUMBER_LENGTH = 100
#: Levels of maps and lists; a portfolio needs about ten, more where predicates nest.
MAX_DEPTH = 64

_PREFIX = "tag:yaml.org,2002:"
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


class _Scalars(yaml.constructor.SafeConstructor, yaml.resolver.Resolver):
    """PyYAML's rules for scalars, with other rules for numbers and without dates."""

    def __init__(self) -> None:
        yaml.constructor.SafeConstructor.__init__(self)
        yaml.resolver.Resolver.__init__(self)


_LOST = (_PREFIX + "float", _PREFIX + "timestamp", _PREFIX + "value")
_Scalars.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in pairs if tag not in _LOST]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Scalars.add_implicit_resolver(_PREFIX + "float", re.compile(rf"^(?:{_FLOAT.pattern})$"), list("-+0123456789."))
_SCALARS = _Scalars()


def read_yaml(data: str | bytes, file: str) -> tuple[Place, ProblemList]:
    """Read one document.

    Args:
        data: The file's text, or its bytes.
        file: Name of the file in messages.

    Returns:
        The values of the file, and the problems of its YAML that still allow the rest to be read and checked.

    Raises:
        PortfolioError: The file cannot be read at all: it is not UTF-8, not YAML, or beyond a bound.
    """
    text = _decoded(data, file)
    try:
        return _composed(text, file)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        message = f"the character U+{error.character:04X} is not allowed"
        raise PortfolioError(
            [Problem(file, line, "", message, "printable characters; write others as \\u....")]
        ) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = " ".join(part for part in (error.context, error.problem) if part)
        raise PortfolioError([Problem(file, mark.line + 1 if mark else None, "", f"not YAML: {message}")]) from None
    except (ValueError, OverflowError) as error:  # "\\U00110000" in double quotes; PyYAML lets it through to chr()
        raise PortfolioError([Problem(file, None, "", f"not YAML: {error}")]) from None


def _composed(text: str, file: str) -> tuple[Place, ProblemList]:
    fast = getattr(yaml, "CSafeLoader", None)  # absent where PyYAML was built without libyaml
    if fast is not None:
        try:
            return _Composer(yaml.parse(text, fast), ProblemList(file)).document()
        except (yaml.YAMLError, UnicodeEncodeError):
            pass  # such as surrogate pairs in JSON's spelling, which the pure parser reads
    return _Composer(yaml.parse(text, yaml.SafeLoader), ProblemList(file)).document()


def _decoded(data: str | bytes, file: str) -> str:
    if len(data) > MAX_BYTES:
        raise PortfolioError([Problem(file, None, "", f"{len(data):,} bytes", f"at most {MAX_BYTES:,} bytes")])
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"not UTF-8: byte 0x{data[error.start]:02x}"
        raise PortfolioError([Problem(file, line, "", message, "a file in UTF-8")]) from None


class _OutOfBoundsError(Exception):
    """The file is beyond a bound, so reading stops."""

    def __init__(self, message: str, path: KeyPath = (), line: int | None = None) -> None:
        super().__init__(message)
        self.path = path
        self.line = line


class _Composer:
    """Composes the events of one document into places; a value with a problem is read as far as possible."""

    def __init__(self, events: Iterator[yaml.Event], problems: ProblemList) -> None:
        self._events = events
        self._problems = problems
        self._anchors: dict[str, Place | None] = {}  # None while the anchored value is being read
        self._written = 0
        self._expanded = 0
        self._grown = False

    def document(self) -> tuple[Place, ProblemList]:
        """Read the one document, to the end of the file.

        Raises:
            PortfolioError: The document is beyond a bound.
        """
        try:
            root = self._problems.root = self._document()
        except _OutOfBoundsError as error:
            self._problems.add(error.path, str(error), line=error.line)
            self._grown = True
        if self._grown:
            raise PortfolioError(self._problems.sorted())
        return root, self._problems

    def _document(self) -> Place:
        next(self._events)  # start of the stream
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return Place({}, 1)
        root = self._value(next(self._events), (), 0)
        next(self._events)  # end of the document
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            self._problems.add((), "a second document begins", "one document per file", line=_line(event))
        return root

    def _value(self, event: yaml.Event, path: KeyPath, depth: int) -> Place:
        line = _line(event)
        self._written += 1
        if self._written > MAX_VALUES:
            raise _OutOfBoundsError(f"more than {MAX_VALUES:,} values", line=line)
        if depth > MAX_DEPTH:
            raise _OutOfBoundsError(f"nested deeper than {MAX_DEPTH} levels", path, line)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor or "", path, line)
        if not isinstance(event, yaml.ScalarEvent | yaml.CollectionStartEvent):
            raise _OutOfBoundsError("a value is expected", path, line)
        if event.tag is not None:
            self._problems.add(path, f"YAML tags are not supported: {shown(event.tag)}", "a plain value", line=line)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        if isinstance(event, yaml.ScalarEvent):
            place = Place(self._scalar(event, path), line)
        elif isinstance(event, yaml.SequenceStartEvent):
            place = self._sequence(path, line, depth)
        else:
            place = self._mapping(path, line, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = place
        return place

    def _alias(self, anchor: str, path: KeyPath, line: int) -> Place:
        # A problem of an alias in a list is reported once, at the list's key.
        key = next((path[:end] for end in range(len(path), 0, -1) if isinstance(path[end - 1], str)), path)
        if anchor not in self._anchors:
            self._problems.add(key, f"no anchor &{shown(anchor)} before the alias *{shown(anchor)}", line=line)
            return Place(None, line)
        place = self._anchors[anchor]
        if place is None:
            self._problems.add(key, f"the alias *{shown(anchor)} is inside its own anchor", line=line)
            return Place(None, line)
        self._expanded += place.size
        if self._expanded > MAX_VALUES:
            self._grown = True
            self._problems.add(
                key,
                f"written out, the aliases have more than {MAX_VALUES:,} values",
                "aliases of a few values, used a few times",
                line=line,
            )
        return place

    def _sequence(self, path: KeyPath, line: int, depth: int) -> Place:
        items: list[object] = []
        place = Place(items, line)
        for position, event in enumerate(self._until(yaml.SequenceEndEvent)):
            part = self._value(event, (*path, position), depth + 1)
            items.append(part.value)
            place.parts[position] = part
            place.size += part.size
        return place

    def _mapping(self, path: KeyPath, line: int, depth: int) -> Place:
        members: dict[str, object] = {}
        place = Place(members, line)
        for event in self._until(yaml.MappingEndEvent):
            key = self._key(event, path, depth)
            part = self._value(next(self._events), (*path, key), depth + 1)
            if key in members:
                first = place.parts[key].line
                self._problems.add((*path, key), f"duplicate key, first in line {first}", line=_line(event))
                continue
            members[key] = part.value
            # An error about a member gets the line of its key; inside an alias, lines are those of its anchor.
            place.parts[key] = Place(part.value, _line(event), part.parts, part.size)
            place.size += part.size
        return place

    def _until(self, end: type[yaml.Event]) -> Iterator[yaml.Event]:
        while not isinstance(event := next(self._events), end):
            yield event

    def _key(self, event: yaml.Event, path: KeyPath, depth: int) -> str:
        value = self._value(event, (*path, "?"), depth + 1).value
        line = _line(event)
        if isinstance(event, yaml.ScalarEvent):
            if event.value == "<<" and event.implicit[0]:
                self._problems.add(
                    (*path, "<<"), "merge keys are not supported", "the keys themselves, written out", line=line
                )
                return "<<"
            if isinstance(value, str):
                return value
            message = f"YAML does not read the key {shown(event.value)} as a text"
            self._problems.add((*path, event.value), message, "a text", f'"{shown(event.value)}":', line)
            return event.value
        self._problems.add((*path, "?"), "the key is not a text", "a text", line=line)
        return "?"

    def _scalar(self, event: yaml.ScalarEvent, path: KeyPath) -> object:
        node = yaml.ScalarNode(_PREFIX + "str", event.value)
        tag = _SCALARS.resolve(yaml.ScalarNode, event.value, event.implicit) if event.tag is None else node.tag  # type: ignore[no-untyped-call]
        line = _line(event)
        if tag == _PREFIX + "null":
            return None
        if tag == _PREFIX + "bool":
            return bool(_SCALARS.construct_yaml_bool(node))
        if tag == _PREFIX + "int" or tag == _PREFIX + "float":
            return self._number(node, tag, path, line)
        return self._text(event.value, path, line)

    def _number(self, node: yaml.ScalarNode, tag: str, path: KeyPath, line: int) -> object:
        try:
            if len(node.value) > MAX_NUMBER_LENGTH:
                raise ValueError
            if tag.endswith("int"):
                whole = int(_SCALARS.construct_yaml_int(node))
                float(whole)
                return whole
            number = float(_SCALARS.construct_yaml_float(node))
        except (ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            self._problems.add(path, f"{shown(node.value)} is not a finite number", "a finite number", line=line)
            return 0
        return number

    def _text(self, text: str, path: KeyPath, line: int) -> str:
        if text.isascii():
            return text
        # "\ud83d\ude00" in double quotes is one character for JSON, two halves for PyYAML.
        try:
            return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            message = "half of a surrogate pair is not a character"
            self._problems.add(path, message, "the character itself", line=line)
            return text.encode("utf-8", "replace").decode()


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 1
