"""Passes on what recorded generators give; its text becomes a part of a patched program."""

from __future__ import annotations

from typing import Any


def gives_async(opened: Any) -> Any:
    """Return an asynchronous generator function that gives the chunks of another; the span ends with them.

    Args:
        opened: Gives the open span and the chunks. What the caller sends, or throws, reaches a generator.
    """

    async def give_async(*args: Any, **kwargs: Any) -> Any:
        call, source = opened(*args, **kwargs)
        given = thrown = None
        try:
            try:
                while True:
                    with call:
                        try:
                            if thrown is not None:
                                chunk = await source.athrow(thrown)
                            else:
                                chunk = await (anext(source) if given is None else source.asend(given))
                        except StopAsyncIteration:
                            break
                    call.add(chunk)
                    given = thrown = None
                    try:
                        given = yield chunk
                    except GeneratorExit:
                        raise
                    except BaseException as error:
                        if not hasattr(source, "athrow"):
                            raise
                        thrown = error
            finally:
                thrown = None
                if hasattr(source, "aclose"):
                    with call:
                        await source.aclose()
        except BaseException as error:
            call.end(None, error)
            raise
        call.end(None, None)

    return give_async


def sent_on(call: Any, source: Any) -> Any:
    """Give the chunks of a generator, to which comes what the caller sends or throws; the span ends with it."""
    given = thrown = None
    try:
        try:
            while True:
                with call:
                    try:
                        chunk = source.send(given) if thrown is None else source.throw(thrown)
                    except StopIteration as stop:
                        result = stop.value
                        break
                call.add(chunk)
                given = thrown = None
                try:
                    given = yield chunk
                except GeneratorExit:
                    raise
                except BaseException as error:
                    thrown = error
        finally:
            thrown = None
            with call:
                source.close()
    except BaseException as error:
        call.end(None, error)
        raise
    call.end(None, None)
    return result
