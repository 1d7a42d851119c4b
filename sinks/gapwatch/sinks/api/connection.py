"""HTTP connection to the API of a process that writes a store; each failure is an error that says what to do.

It follows no redirect and uses no proxy of the environment: a token goes only to the host that the user has named.
"""

from __future__ import annotations

import contextlib
import http.client
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pyarrow as pa

from gapwatch.scorers.errors import GapwatchError, JobError, StoreHeldError, UsageError
from gapwatch.scorers.printable import shown, shown_lines
from gapwatch.sinks.api.api_version import API_HEADER, API_VERSION
from gapwatch.sinks.api.endpoint_note import ApiNote, read_note
from gapwatch.sinks.api.store_address import StoreAddress, Token, find_token, is_loopback

#: Seconds to connect. Longer: a wrong address takes longer to be told. Shorter: a distant machine seems away.
_CONNECT_SECONDS = 10.0
#: Seconds without a reply after which a request fails. Longer than the time limit of queries.
PATIENCE_SECONDS = 120.0
#: Seconds without a request after which a connection is made anew: the server soon closes it.
_IDLE_SECONDS = 3.0
#: Largest answer in bytes, twice the limit of the API (`QueryLimits.bytes`). Larger: a server that is not Gapwatch
#: fills the memory. Smaller: long results are refused.
_ANSWER_BYTES = 256 * 2**20
_PIECE_BYTES = 2**20
#: Requests that may be sent again on a new connection: they change nothing.
_REPEATABLE = ("/v1/query", "/v1/ledger", "/v1/about")


class _CutAnswerError(Exception):
    """The connection ended inside an answer."""


class _LongAnswerError(Exception):
    """An answer is longer than any of the API."""


class TokenRefusedError(UsageError):
    """The API needs a token that the request did not have."""


@dataclass(frozen=True)
class Endpoint:
    """Address of an API, and what is known of it.

    Attributes:
        url: Its URL, without a slash at the end.
        read_token, write_token: Tokens by use; empty where there is none.
        pid: Process that serves it, as its note says; None if it was found by its address.
    """

    url: str
    read_token: Token
    write_token: Token
    pid: int | None = None

    @classmethod
    def of_note(cls, note: ApiNote) -> Endpoint:
        """Return the endpoint that a note beside a store names."""
        token = Token(note.write_token, "the note beside the store")
        return cls(note.url, token, token, note.pid)

    @classmethod
    def of_address(cls, address: StoreAddress) -> Endpoint:
        """Return the endpoint at an address. On this machine, the note beside the store may supply the tokens.

        Raises:
            UsageError: A token cannot be read, or the address is not of Gapwatch.
        """
        found = cls(address.url, find_token(address, False), find_token(address, True))
        if not address.is_local or (found.read_token.text and found.write_token.text):
            return found
        note = _note_of(found)
        if note is None:
            return found
        token = Token(note.write_token, "the note beside the store")
        return cls(found.url, found.read_token if found.read_token.text else token,
                   found.write_token if found.write_token.text else token)  # fmt: skip


class ApiConnection:
    """Connection to an endpoint; it reconnects as needed."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._parts = parts = urlsplit(endpoint.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._http = kind(parts.hostname or "", parts.port, timeout=_CONNECT_SECONDS)
        self._used_at = 0.0
        self._is_interrupted = False

    def request(
        self, method: str, path: str, asked: dict[str, Any] | None = None, seconds: float = PATIENCE_SECONDS
    ) -> tuple[bytes, str]:
        """Send a request and return the body of the answer, and the limit that cut it, if any.

        Args:
            method: GET or POST.
            path: Path of the API.
            asked: JSON object to send.
            seconds: Time without a reply after which the request fails.

        Raises:
            UsageError: The address, the token or the request is wrong.
            JobError: The request exceeds a limit, or the process cannot answer.
        """
        writes = method != "GET" and path not in _REPEATABLE
        token = self._endpoint.write_token if writes else self._endpoint.read_token
        try:
            response, body = self._exchange(method, path, asked, token, seconds)
        except (OSError, http.client.HTTPException, _CutAnswerError, _LongAnswerError) as error:
            self._http.close()
            raise self._unreachable(error) from error
        if response.status < 300 and response.headers.get(API_HEADER) == API_VERSION:
            return body, response.headers.get("Gapwatch-Truncated", "")
        raise self._refusal(response, body, token, writes)

    def request_object(
        self, method: str, path: str, asked: dict[str, Any] | None = None, seconds: float = PATIENCE_SECONDS
    ) -> dict[str, Any]:
        """Send a request and return the JSON object of the answer; see `request`."""
        with self.understanding():
            answer = orjson.loads(self.request(method, path, asked, seconds)[0])
            if not isinstance(answer, dict):
                raise TypeError(type(answer).__name__)
            return answer

    @contextlib.contextmanager
    def understanding(self) -> Iterator[None]:
        """Turn the failure to read an answer into an error that names the address.

        Raises:
            UsageError: The answer has another form than the API's.
        """
        try:
            yield
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise UsageError(
                f"{self._endpoint.url} answers with version {API_VERSION} of the API of Gapwatch, but what it sends "
                "has another form; check host and port, and whether a proxy changes the answers"
            ) from error

    def interrupt(self) -> None:
        """Close the connection, which ends the query on the server; called from another thread."""
        self._is_interrupted = True
        if self._http.sock is not None:
            with contextlib.suppress(OSError):
                self._http.sock.shutdown(2)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _exchange(
        self, method: str, path: str, asked: dict[str, Any] | None, token: Token, seconds: float
    ) -> tuple[http.client.HTTPResponse, bytes]:
        if self._http.sock is not None and time.monotonic() - self._used_at > _IDLE_SECONDS:
            self._http.close()
        was_open = self._http.sock is not None
        try:
            return self._exchange_once(method, path, asked, token, seconds)
        except (ConnectionError, http.client.RemoteDisconnected):
            if not was_open or self._is_interrupted or path not in _REPEATABLE:
                raise
            self._http.close()  # the server had closed a connection at rest
            return self._exchange_once(method, path, asked, token, seconds)

    def _exchange_once(
        self, method: str, path: str, asked: dict[str, Any] | None, token: Token, seconds: float
    ) -> tuple[http.client.HTTPResponse, bytes]:
        headers = {"Authorization": f"Bearer {token.text}"} if token.text else {}
        if asked is not None:
            headers["Content-Type"] = "application/json"
        if self._http.sock is None:
            self._http.connect()
        self._http.sock.settimeout(seconds)
        self._http.request(method, self._parts.path + path, None if asked is None else orjson.dumps(asked), headers)
        response = self._http.getresponse()
        body = _body_of(response)
        self._used_at = time.monotonic()
        return response, body

    # --- errors

    def _unreachable(self, error: Exception) -> GapwatchError:
        why = str(getattr(error, "strerror", None) or error or type(error).__name__)
        url = self._endpoint.url
        if isinstance(error, _CutAnswerError):
            return JobError(f"the answer of {url} was cut off ({error}); try again, and see the log of that process")
        if isinstance(error, _LongAnswerError):
            return JobError(
                f"the answer of {url} is longer than {_ANSWER_BYTES >> 20} MiB and was not read; ask for less, or "
                "check host and port"
            )
        if self._endpoint.pid is not None:
            return StoreHeldError(
                f"the store is held by process {self._endpoint.pid}, and its API at {url} does not answer ({why})"
            )
        if isinstance(error, ssl.SSLCertVerificationError):
            return UsageError(f"the certificate of {url} is not valid ({error.verify_message}); no token was sent")
        if isinstance(error, ssl.SSLError):
            return UsageError(f"{url} does not speak https ({error.reason or why}); `gapwatch run` itself serves http")
        if isinstance(error, http.client.HTTPException) and not isinstance(error, http.client.RemoteDisconnected):
            return UsageError(f"{url} is not the API of Gapwatch: its answer is not HTTP")
        if isinstance(error, TimeoutError):
            return UsageError(f"{url} does not answer in time; is this the address that `gapwatch run` listens on?")
        return UsageError(f"nothing answers at {url} ({why}); is `gapwatch run` running there, with --listen?")

    def _refusal(self, response: http.client.HTTPResponse, body: bytes, token: Token, writes: bool) -> GapwatchError:
        url, status = self._endpoint.url, response.status
        if 300 <= status < 400:
            return UsageError(f"{url} redirects to another address, to which no token is sent; give the last address")
        version = response.headers.get(API_HEADER)
        if version is None and status < 500:
            return UsageError(f"{url} is not the API of Gapwatch (its answer has status {status}); check host and port")
        if version is not None and version != API_VERSION:
            return UsageError(
                f"{url} is another version of Gapwatch (its API is version {shown(version)}, that of this program "
                f"{API_VERSION}); install the same version on both machines"
            )
        message = _message(body)
        if status == 401:
            return TokenRefusedError(_token_message(url, token, writes))
        if status in (400, 403, 404):
            return UsageError(message)
        return JobError(f"the store cannot be read: {message}")


def _token_message(url: str, token: Token, writes: bool) -> str:
    use = "write" if writes else "read"
    where = f"It is GAPWATCH_{use.upper()}_TOKEN of that run, else {use}_token in the file STORE.api beside its store"
    if token.text:
        return f"{url} does not accept the token of {token.origin} as its {use} token. {where}"
    return f"{url} asks for its {use} token: put it into GAPWATCH_TOKEN, or into a file for --token-file. {where}"


def _message(body: bytes) -> str:
    try:
        text = str(orjson.loads(body)["error"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        text = body[:200].decode("utf-8", "replace")
    return shown_lines(text)


def _body_of(response: http.client.HTTPResponse) -> bytes:
    """Read the body of an answer.

    Raises:
        _CutAnswerError: The connection ended before the body did.
        _LongAnswerError: The body is longer than `_ANSWER_BYTES`.
    """
    expected, pieces, size = response.length, list[bytes](), 0
    try:
        while piece := response.read(_PIECE_BYTES):
            pieces.append(piece)
            size += len(piece)
            if size > _ANSWER_BYTES:
                raise _LongAnswerError
    except (OSError, http.client.HTTPException) as error:
        why = "no more came in time" if isinstance(error, TimeoutError) else "the connection ended"
        raise _CutAnswerError(f"{why} after {size:,} bytes") from error
    if expected is not None and size < expected and response.length:
        raise _CutAnswerError(f"the connection ended after {size:,} of {expected:,} bytes")
    return b"".join(pieces)


def _note_of(endpoint: Endpoint) -> ApiNote | None:
    """Return the note of the process at a local address; None if the process does not name its store.

    Its tokens are for the port that the note names, and are sent to no other.
    """
    connection = ApiConnection(endpoint)
    try:
        about = connection.request_object("GET", "/v1/about")
        with connection.understanding():
            store = about["store"]
    except TokenRefusedError:
        return None
    finally:
        connection.close()
    note = read_note(Path(store)) if isinstance(store, str) else None
    if note is None:
        return None
    named, asked = urlsplit(note.url), urlsplit(endpoint.url)
    is_same = is_loopback(named.hostname or "") and (named.scheme, named.port) == (asked.scheme, asked.port)
    return note if is_same else None
