"""How to reach a Kafka cluster, in one value that flags and environment fill and every client takes.

The standard library alone: the publisher imports this inside other people's pipelines.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from gapwatch.publisher.errors import SettingsError

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

#: `GAPWATCH_KAFKA_BROKERS`, `GAPWATCH_KAFKA_PASSWORD`, ...: the name of the field in capitals.
ENVIRONMENT_PREFIX = "GAPWATCH_KAFKA_"


@dataclass(frozen=True)
class KafkaSettings:
    """Where a cluster is and how to log in; a password is never shown.

    Attributes:
        brokers: `host:port`, several divided by commas. No default: a wrong guess would publish to a stranger.
        security_protocol: One of `PROTOCOLS`; empty: by what else is given (a user name: SASL, a file: TLS).
        sasl_mechanism: One of `MECHANISMS`; only with SASL.
        username, password: For SASL.
        ca_file: PEM of the authorities to trust; empty: those of the system.
        cert_file, key_file: PEM of a client's certificate and key, for clusters that ask for one.

    Raises:
        SettingsError: The values contradict each other or name files that are not there.
    """

    brokers: str
    security_protocol: str = ""
    sasl_mechanism: str = "SCRAM-SHA-256"
    username: str = ""
    password: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def __post_init__(self) -> None:
        for address in self.addresses:
            _check_address(address)
        if not self.addresses:
            raise SettingsError(f"no brokers given; pass --brokers HOST:PORT or set {ENVIRONMENT_PREFIX}BROKERS")
        if not self.security_protocol:
            protocol = ("SASL_" if self.username else "") + ("SSL" if self.ca_file or self.cert_file else "PLAINTEXT")
            object.__setattr__(self, "security_protocol", protocol)
        self._check_choices()
        for name in ("ca_file", "cert_file", "key_file"):
            value = getattr(self, name)
            if value and not Path(value).is_file():
                raise SettingsError(f"{name}: no file {value!r}")

    def _check_choices(self) -> None:
        if self.security_protocol not in PROTOCOLS:
            raise SettingsError(
                f"security_protocol is {self.security_protocol!r}; expected one of {', '.join(PROTOCOLS)}"
            )
        if self.sasl_mechanism not in MECHANISMS:
            raise SettingsError(f"sasl_mechanism is {self.sasl_mechanism!r}; expected one of {', '.join(MECHANISMS)}")
        if self.uses_sasl and not (self.username and self.password):
            raise SettingsError(f"{self.security_protocol} needs a username and a password")
        if not self.uses_sasl and (self.username or self.password):
            raise SettingsError(f"a username or password is given, but {self.security_protocol} sends none")
        if not self.uses_tls and (self.ca_file or self.cert_file or self.key_file):
            raise SettingsError(f"a certificate file is given, but {self.security_protocol} does not encrypt")
        if self.key_file and not self.cert_file:
            raise SettingsError("key_file is given without cert_file")

    def __repr__(self) -> str:
        user = f", username={self.username!r}, password=***" if self.username else ""
        return f"KafkaSettings({self.brokers!r}, {self.security_protocol}{user})"

    @property
    def addresses(self) -> list[str]:
        """The brokers, one by one."""
        return [part.strip() for part in self.brokers.split(",") if part.strip()]

    @property
    def uses_sasl(self) -> bool:
        """Whether a client logs in."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """Whether what is sent is encrypted."""
        return self.security_protocol.endswith("SSL")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **given: str | None) -> KafkaSettings:
        """Fill the fields from what is given, else from `GAPWATCH_KAFKA_*`, else by default."""
        values: dict[str, str] = {"brokers": ""}
        for field in fields(cls):
            value = given.get(field.name) or environment.get(ENVIRONMENT_PREFIX + field.name.upper())
            if value:
                values[field.name] = value
        return cls(**values)

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return what verifies the brokers and shows the client's certificate; None where nothing is encrypted.

        Raises:
            SettingsError: A file holds no certificate or key.
        """
        if not self.uses_tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None)
        except (ssl.SSLError, OSError) as error:
            files = ", ".join(file for file in (self.ca_file, self.cert_file, self.key_file) if file)
            raise SettingsError(f"the certificates cannot be read ({files}): {error}") from error
        return context

    def client_options(self) -> dict[str, Any]:
        """Return the keyword arguments that every aiokafka client takes."""
        options: dict[str, Any] = {
            "bootstrap_servers": self.addresses,
            "security_protocol": self.security_protocol,
            "ssl_context": self.ssl_context(),
        }
        if self.uses_sasl:
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.username
            options["sasl_plain_password"] = self.password
        return options


def _check_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536 or any(character in host for character in "/@ "):
        raise SettingsError(f"brokers: {address!r} is no HOST:PORT")
