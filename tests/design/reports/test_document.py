"""Reports: both writers show the whole document, and text from the code stays text."""

from __future__ import annotations

import html
import re
from dataclasses import replace

import pytest

from gapwatch.design.metrics.metric_design import MetricReview
from gapwatch.design.reports.design_document import design_document
from gapwatch.design.reports.document import (
    Badge,
    Block,
    Code,
    Codes,
    Document,
    Fold,
    Heading,
    Listing,
    Paragraph,
    Strong,
    Table,
    Words,
)
from gapwatch.design.reports.html import report_html
from gapwatch.design.reports.markdown import report_markdown
from gapwatch.design.source.scan import scan_repository
from gapwatch.design.stage import run_design
from tests.design.rag_run import APP

HOSTILE = "</td><script>x</script> | `a` [b](c) *d* _e_ & \\ \x07"


def _bare(text: str) -> str:
    """Letters and digits only: what is left when markup, escapes and line breaks are gone."""
    return "".join(re.findall(r"\w+", text.replace("_", "")))


def _said(block: Block) -> list[Words]:
    if isinstance(block, Heading | Paragraph):
        return [block.words]
    if isinstance(block, Table):
        return [cell for row in block.rows for cell in row]
    if isinstance(block, Listing):
        return [line for item in block.items for line in item]
    if isinstance(block, Fold):
        return [block.title.words, block.aside, *(words for inside in block.blocks for words in _said(inside))]
    return []


def _texts(document: Document) -> list[str]:
    pieces = [p for section in document.sections for block in section for words in _said(block) for p in words]
    out: list[str] = []
    for piece in pieces:
        out += (
            [piece]
            if isinstance(piece, str)
            else piece.texts[: piece.most]
            if isinstance(piece, Codes)
            else [piece.text]
        )
    return out


def test_both_writers_say_all_that_the_document_says() -> None:
    document = design_document(run_design(scan_repository(APP), goal="right answers"))
    page = _bare(html.unescape(re.sub(r"<[^>]*>", " ", report_html(document))))
    text = _bare(html.unescape(report_markdown(document)))

    texts = [_bare(t) for t in _texts(document)]

    assert len(texts) > 300
    assert [t for t in texts if t not in page] == []
    assert [t for t in texts if t not in text] == []


@pytest.mark.parametrize("piece", [HOSTILE, Code(HOSTILE), Codes((HOSTILE,), 1), Strong(HOSTILE), Badge(HOSTILE)])
def test_text_from_the_code_never_becomes_markup(piece: str | Code | Codes | Strong | Badge) -> None:
    blocks: tuple[Block, ...] = (
        Heading(2, (piece,)),
        Paragraph((piece,)),
        Table(("a",), (((piece,),),)),
        Listing((((piece,),),)),
        Fold(Heading(3, (piece,)), (), aside=(piece,)),
    )
    document = Document(HOSTILE, (blocks,))
    page, text = report_html(document), report_markdown(document)

    assert "<script" not in page
    assert "\x07" not in page
    outside_code = re.sub(r"`[^`\n]*`", "", text)
    assert "<" not in outside_code
    assert "](" not in outside_code.replace("\\]", "")
    row = next(line for line in text.splitlines() if line.startswith("| ") and "script" in line)
    assert len(re.findall(r"(?<!\\)\|", row)) == 2, "the cell stays one cell"


def test_codes_name_the_first_and_count_the_rest() -> None:
    document = Document("t", ((Paragraph((Codes(("a", "b", "c"), 2),)),),))

    assert '<code>a</code> <code>b</code> <span class="more">and 1 more</span>' in report_html(document)
    assert report_markdown(document) == "`a`, `b` and 1 more\n"


def test_a_fault_of_several_metrics_is_one_row_and_those_of_the_portfolio_are_not_called_rejected() -> None:
    design = run_design(scan_repository(APP))
    names = [m.name for m in design.metrics][:2]
    reviews = [MetricReview(name, "c", "reject", ["missing_judge"], "no judge", None, None, {}) for name in names]
    text = report_markdown(design_document(replace(design, critique=replace(design.critique, reviews=reviews))))

    assert f"| `{names[0]}`, `{names[1]}` | kept, flagged: missing\\_judge | no judge |" in text
