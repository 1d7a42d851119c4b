"""Past shifts under a new answer: when it is known which way is better, what was reported before is told anew."""

from __future__ import annotations

from sinks.keeping import Connection
from streams.alerting.card import Card
from streams.alerting.rows import kind_of, verdict_of

_COLUMNS = "kind, moved, verdict, question"


def relabel(con: Connection, lane: str, seq: int, card: Card) -> int:
    """Insert the last word on each past shift of a metric whose direction turned; the earlier ones stay as history.

    Args:
        con: In a transaction.
        lane: Whose shifts.
        seq: Number of the commit.
        card: Of the metric, with the new direction.

    Returns:
        How many shifts are labelled otherwise from now on.
    """
    rows = con.execute(
        f"""SELECT shift_id, {_COLUMNS}, (
                SELECT any_value(attribution->>'watched') FROM alerts a WHERE a.shift_id = shifts.shift_id
            ) FROM shifts
            WHERE lane = ? AND pipeline = ? AND metric = ? AND kind IN ('cascade', 'shift')
            QUALIFY row_number() OVER (PARTITION BY shift_id ORDER BY rowid DESC) = 1 ORDER BY shift_id""",
        [lane, card.pipeline, card.metric],
    ).fetchall()
    changed = 0
    for shift_id, kind, moved, verdict, question, watched in rows:
        if watched == "labels":
            continue  # which label fails is in the rate; the mix of labels has no way
        now = verdict_of(card, watched, moved == "up")
        label = (kind_of(watched, now), now, card.question if card.side_of(watched) == 0 else None)
        if label == (kind, verdict, question):
            continue
        con.execute(
            """INSERT INTO shifts SELECT * REPLACE (?::BIGINT AS seq, ? AS kind, ? AS verdict, ?::VARCHAR AS question)
                FROM shifts WHERE shift_id = ? ORDER BY rowid DESC LIMIT 1""",
            [seq, *label, shift_id],
        )
        changed += 1
    return changed
