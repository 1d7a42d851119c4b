"""A handler that hands its error to a function which always raises swallows nothing."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import NoReturn

import httpx
from fastapi import FastAPI, HTTPException

app = FastAPI()
logger = logging.getLogger(__name__)


class Search:
    def passages(self, question: str) -> list[str]:
        try:
            return httpx.get("https://index.example", params={"q": question}).raise_for_status().json()
        except httpx.HTTPError as error:
            self._handle_error(error)
        return []

    def pictures(self, question: str) -> list[str]:
        try:
            return httpx.get("https://pictures.example", params={"q": question}).raise_for_status().json()
        except httpx.HTTPError as error:
            self._note_error(error)
        return []

    def _handle_error(self, error: httpx.HTTPError) -> None:
        logger.error("the index does not answer: %s", error)
        raise HTTPException(502, "the index does not answer") from error

    def _note_error(self, error: httpx.HTTPError) -> None:
        logger.error("no pictures: %s", error)


def fail(error: Exception) -> NoReturn:
    raise RuntimeError("the tool failed") from error


def forget(error: Exception) -> None:
    logger.warning("the tool failed: %s", error)


def weather(place: str) -> str:
    try:
        return httpx.get("https://weather.example", params={"place": place}).text
    except httpx.HTTPError as error:
        fail(error)


def traffic(place: str) -> str:
    try:
        return httpx.get("https://traffic.example", params={"place": place}).text
    except httpx.HTTPError as error:
        forget(error)
        return "unknown"


def as_bad_gateway(function: Callable[[str], str]) -> Callable[[str], str]:
    @functools.wraps(function)
    def wrapper(place: str) -> str:
        try:
            return function(place)
        except httpx.HTTPError as error:
            raise HTTPException(502, str(error)) from error

    return wrapper


def as_unknown(function: Callable[[str], str]) -> Callable[[str], str]:
    @functools.wraps(function)
    def wrapper(place: str) -> str:
        try:
            return function(place)
        except httpx.HTTPError:
            return "unknown"

    return wrapper


@as_bad_gateway
def tides(place: str) -> str:
    return httpx.get("https://tides.example", params={"place": place}).raise_for_status().text


@as_unknown
def pollen(place: str) -> str:
    return httpx.get("https://pollen.example", params={"place": place}).raise_for_status().text


@app.post("/ask")
def ask(question: str, place: str) -> list[object]:
    search = Search()
    found: list[object] = [search.passages(question), search.pictures(question)]
    return [*found, weather(place), traffic(place), tides(place), pollen(place)]
