"""Section of the design report about what makes a design less than its numbers say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gapwatch.design.reports.document import Block, Codes, Inline, Paragraph, Strong
from gapwatch.design.reports.summary import unknown_of, unread_languages, unread_paths
from gapwatch.design.stage import Design

#: Imports, paths and places of secrets that the report lists; the rest is a count.
_MOST_IMPORTS, _MOST_SECRETS = 5, 5


def notices_section(design: Design) -> Iterator[Block]:
    """Yield a paragraph for each thing that is missing, with its first places."""
    if not design.has_model:
        yield _notice(Strong("Gapwatch found no call to a model."), " Answer the first question to name it.")
    if design.unknown_libraries:
        more = (
            " Calls through them are missing from everything below. A catalogue of your own (--catalog) can name them."
        )
        yield _notice(Strong(unknown_of(design)), more)
    if lost := design.own_imports.lost:
        plural = "imports of this repository's own files lead" if len(lost) > 1 else "import of its own files leads"
        some = Strong(f"{len(lost)} {plural} to no file:")
        rest = f" and {len(lost) - _MOST_IMPORTS} more" if len(lost) > _MOST_IMPORTS else ""
        told = f" {'; '.join(lost[:_MOST_IMPORTS])}{rest}. Calls through them are missing from everything below."
        yield _notice(some, told)
    if design.unread:
        told = f" {unread_languages(design)}. What they do is missing from everything below."
        yield _notice(Strong("Not read:"), told)
    if unread := unread_paths(design):
        paths = _codes((f"{s.path}: {s.reason}" for s in unread), _MOST_IMPORTS)
        yield _notice(Strong("Python that was not read:"), " ", paths, ".")
    if design.secrets:
        places = _codes(design.secrets, _MOST_SECRETS)
        told = ". The files of this design mask them."
        yield _notice(Strong("Keys or passwords in the code:"), " ", places, told)


def _notice(*words: Inline) -> Paragraph:
    return Paragraph(words, "notice")


def _codes(texts: Iterable[str], most: int) -> Codes:
    return Codes(tuple(texts), most)
