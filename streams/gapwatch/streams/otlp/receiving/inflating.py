"""Inflates gzip piece by piece, within limits, so that a small request cannot fill the memory."""

from __future__ import annotations

import zlib

#: Most bytes of an inflated body. An exporter sends at most some MB.
INFLATED_LIMIT = 64 << 20
#: Most bytes out for one byte in. Spans in JSON shrink 10 to 30 times.
RATIO_LIMIT = 200
#: Bytes out up to which the ratio does not matter: short bodies of equal bytes have a high one.
_FREE_BYTES = 1 << 20
_PIECE_BYTES = 1 << 18
_GZIP = 16 + zlib.MAX_WBITS


class InflateError(Exception):
    """A body is not gzip, or its end is missing."""


class InflateLimitError(Exception):
    """A body inflates to more than the limits allow."""


def inflate(body: bytes) -> bytes:
    """Return the inflated bytes of a body in gzip, of one member or several.

    Raises:
        InflateError: It is not gzip, it is damaged, or its end is missing.
        InflateLimitError: It would be longer than `INFLATED_LIMIT`, or `RATIO_LIMIT` times as long as the body. No more
            than the limit is ever in memory.
    """
    pieces: list[bytes] = []
    total, rest = 0, body
    while rest:
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            try:
                piece = member.decompress(rest, _PIECE_BYTES)
            except zlib.error as error:
                raise InflateError(f"the body is not valid gzip: {error}") from None
            rest = member.unused_data if member.eof else member.unconsumed_tail
            if not piece and not rest and not member.eof:
                raise InflateError("the gzip of the body is cut off")
            total += len(piece)
            _check(total, len(body) - len(rest))
            pieces.append(piece)
    if not pieces:
        raise InflateError("the body is empty, which is not gzip")
    return b"".join(pieces)


def _check(out: int, used: int) -> None:
    if out > INFLATED_LIMIT:
        raise InflateLimitError(f"the body inflates to more than {INFLATED_LIMIT >> 20} MiB")
    if out > _FREE_BYTES and out > RATIO_LIMIT * max(1, used):
        raise InflateLimitError(f"the body inflates to more than {RATIO_LIMIT} times its size")
