"""Decorator that opens a scope around each call of a plain function, coroutine, generator or async generator."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Protocol, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])


class Scope(Protocol):
    """A scope that is open while a function runs; its methods never raise."""

    def open(self) -> object:
        """Begin, and become the current scope."""

    def resume(self) -> None:
        """Become the current scope again."""

    def suspend(self) -> None:
        """Restore the scope that was current before."""

    def take_result(self, result: Any) -> None:
        """Record the result of the function."""

    def close(self, error: BaseException | None) -> None:
        """End, with the exception if there was one."""


def wrap_function(function: Function, new_scope: Callable[[tuple[Any, ...], dict[str, Any]], Scope]) -> Function:
    """Return the function with a scope opened around every call; results and exceptions pass unchanged.

    The scope of a generator ends with the generator, and is the current one only while the generator runs.

    Args:
        function: Plain function, coroutine function, generator function or async generator function.
        new_scope: Makes the scope of a call from its positional and keyword arguments.
    """
    wrapper: Any
    if inspect.isasyncgenfunction(function):
        wrapper = _wrap_async_generator(function, new_scope)
    elif inspect.isgeneratorfunction(function):
        wrapper = _wrap_generator(function, new_scope)
    elif inspect.iscoroutinefunction(function):
        wrapper = _wrap_coroutine(function, new_scope)
    else:
        wrapper = _wrap_plain(function, new_scope)
    return functools.wraps(function)(wrapper)  # type: ignore[return-value]


def _wrap_plain(function: Callable[..., Any], new_scope: Callable[..., Scope]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        scope = new_scope(args, kwargs)
        scope.open()
        try:
            result = function(*args, **kwargs)
        except BaseException as error:
            scope.close(error)
            raise
        scope.take_result(result)
        scope.close(None)
        return result

    return wrapper


def _wrap_coroutine(function: Callable[..., Any], new_scope: Callable[..., Scope]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        scope = new_scope(args, kwargs)
        scope.open()
        try:
            result = await function(*args, **kwargs)
        except BaseException as error:
            scope.close(error)
            raise
        scope.take_result(result)
        scope.close(None)
        return result

    return wrapper


def _wrap_generator(function: Callable[..., Any], new_scope: Callable[..., Scope]) -> Callable[..., Any]:
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        scope = new_scope(args, kwargs)
        inner = function(*args, **kwargs)
        items: list[Any] = []
        step: Callable[[], Any] = functools.partial(next, inner)
        scope.open()
        try:
            while True:
                item = step()
                items.append(item)
                scope.suspend()
                try:
                    step = functools.partial(inner.send, (yield item))
                except GeneratorExit:
                    scope.resume()
                    inner.close()  # the caller stopped reading, which is not an error
                    break
                except BaseException as thrown:
                    step = functools.partial(inner.throw, thrown)
                scope.resume()
        except StopIteration as end:
            scope.take_result(_joined(items))
            scope.close(None)
            return end.value
        except BaseException as error:
            scope.take_result(_joined(items))
            scope.close(error)
            raise
        scope.take_result(_joined(items))
        scope.close(None)
        return None

    return wrapper


def _wrap_async_generator(function: Callable[..., Any], new_scope: Callable[..., Scope]) -> Callable[..., Any]:
    async def wrapper(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        scope = new_scope(args, kwargs)
        inner = function(*args, **kwargs)
        items: list[Any] = []
        step: Callable[[], Any] = inner.__anext__
        scope.open()
        try:
            while True:
                item = await step()
                items.append(item)
                scope.suspend()
                try:
                    step = functools.partial(inner.asend, (yield item))
                except GeneratorExit:
                    scope.resume()
                    await inner.aclose()
                    break
                except BaseException as thrown:
                    step = functools.partial(inner.athrow, thrown)
                scope.resume()
        except StopAsyncIteration:
            pass
        except BaseException as error:
            scope.take_result(_joined(items))
            scope.close(error)
            raise
        scope.take_result(_joined(items))
        scope.close(None)

    return wrapper


def _joined(items: list[Any]) -> Any:
    """Return the items of a generator: joined if all are texts, else as a list."""
    return "".join(items) if items and all(isinstance(item, str) for item in items) else items
