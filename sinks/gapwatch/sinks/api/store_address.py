"""Address of a store that a running process serves, as `--store` accepts it, and the tokens for it."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.printable import shown
from gapwatch.sinks.api.address import DEFAULT_PORT
from gapwatch.sinks.export.delta_place import DeltaPlace

#: Environment variables with a token, for commands: any token; the tokens of a run by their names there.
ANY_TOKEN, READ_TOKEN, WRITE_TOKEN = "GAPWATCH_TOKEN", "GAPWATCH_READ_TOKEN", "GAPWATCH_WRITE_TOKEN"


@dataclass(frozen=True)
class StoreAddress:
    """Address of the API of a process that writes a store.

    Attributes:
        url: Such as `http://host:9464`, without a slash at its end. It may have a path, for a proxy.
        token_file: File whose first line is the token; None: the environment may have it.
    """

    url: str
    token_file: Path | None = None

    def __str__(self) -> str:
        return self.url

    @property
    def is_local(self) -> bool:
        """True if the host is this machine by an address that no other machine reaches."""
        return is_loopback(urlsplit(self.url).hostname or "")

    @property
    def is_encrypted(self) -> bool:
        """True for https."""
        return self.url.startswith("https:")


#: Value of `--store`: a file, the address of the process that writes it, or exported tables.
StorePlace = Path | StoreAddress | DeltaPlace


@dataclass(frozen=True)
class Token:
    """A token and its origin; `repr` hides the token.

    Attributes:
        text: The token; empty if there is none.
        origin: Where it came from, for messages.
    """

    text: str = ""
    origin: str = ""

    def __repr__(self) -> str:
        return f"Token(from {self.origin or 'nowhere'})"


def read_address(text: str, token_file: Path | None = None) -> StoreAddress:
    """Return the address that a text states.

    Raises:
        UsageError: The text is not an address of http or https, or has a password, a query or a fragment.
    """
    expected = f"write http://HOST:{DEFAULT_PORT}, or https://HOST"
    try:
        parts = urlsplit(text)
        is_usable = (parts.port is None or parts.port > 0) and _is_host(parts.hostname or "") and _is_path(parts.path)
    except ValueError:
        raise UsageError(f"--store: this is not an address; {expected}") from None
    if parts.username is not None or parts.password is not None:
        raise UsageError(f"--store: an address has no user name or password; {expected}, and give the token apart")
    if parts.scheme not in ("http", "https") or not is_usable or not text.isprintable():
        raise UsageError(f"--store {shown(text, 300)!r} is not an address; {expected}")
    if parts.query or parts.fragment:
        raise UsageError(f"--store: an address has no ? and no #; {expected}")
    return StoreAddress(f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", token_file)


def find_token(address: StoreAddress, writes: bool, environment: Mapping[str, str] = os.environ) -> Token:
    """Return the token for a request: that of the file, else of the environment; empty if there is none.

    Args:
        address: The address, with its token file.
        writes: True for a request that changes the store.
        environment: Variables of the process.

    Raises:
        UsageError: The file cannot be read, or a token has characters that no token has.
    """
    if address.token_file is not None:
        return Token(read_token_file(address.token_file), f"--token-file {address.token_file}")
    for name in (ANY_TOKEN, WRITE_TOKEN if writes else READ_TOKEN):
        if text := environment.get(name, "").strip():
            return Token(_checked(text, name), name)
    return Token()


def read_token_file(path: Path) -> str:
    """Return the token in a file: its first line.

    Raises:
        UsageError: The file cannot be read, or its first line is not a token.
    """
    try:
        text = path.read_text(encoding="utf-8").partition("\n")[0].strip()
    except UnicodeDecodeError:
        raise UsageError(f"the token file {path} is not a text") from None
    except OSError as error:
        raise UsageError(f"the token file {path} cannot be read: {error.strerror or error}") from error
    return _checked(text, f"the token file {path}")


def read_token_variable(name: str, environment: Mapping[str, str]) -> str:
    """Return the token in a variable; empty if the variable is not set or empty.

    Raises:
        UsageError: The text has spaces or other characters that no token has, so that no client could send it.
    """
    text = environment.get(name, "")
    return _checked(text.strip(), name) if text else ""


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address means this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_host(name: str) -> bool:
    """Return whether a name can be that of a host; a name outside ASCII is sent in the form of IDNA."""
    try:
        return 0 < len(name.encode("idna")) <= 253 and not any(c.isspace() or c in "%*" for c in name)
    except UnicodeError:
        return False


def _is_path(text: str) -> bool:
    """Return whether a text can be the path of a URL as it is."""
    return text.isascii() and " " not in text


def _checked(text: str, origin: str) -> str:
    if not text:
        raise UsageError(f"{origin} is empty; it must hold the token")
    if not text.isascii() or not text.isprintable() or " " in text:  # it would not fit into a header
        raise UsageError(f"{origin} does not hold a token: the text has spaces or other characters that no token has")
    return text
