"""Connection settings of a Kafka cluster, read from arguments and the environment, for every Kafka client.

Only the standard library is imported, because pipelines import this file with the publisher.
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

#: Followed by the name of a field in capitals: `GAPWATCH_KAFKA_BROKERS`, `GAPWATCH_KAFKA_PASSWORD`, ...
ENVIRONMENT_PREFIX = "GAPWATCH_KAFKA_"


@dataclass(frozen=True)
class KafkaSettings:
    """Addresses of a cluster and the login; `repr` hides the password.

    Attributes:
        brokers: `host:port`, several separated by commas. There is no default: a wrong guess would send traces to a
            foreign cluster.
        security_protocol: One of `PROTOCOLS`. If empty, it follows from the other fields: SASL with a user name, TLS
            with a certificate file.
        sasl_mechanism: One of `MECHANISMS`; only used with SASL.
        username, password: Login for SASL.
        ca_file: PEM file of the certificate authorities to trust; if empty, those of the system.
        cert_file, key_file: PEM files of the client's certificate and key, for clusters that require one.

    Raises:
        SettingsError: The values contradict each other or name files that do not exist.
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
            raise SettingsError(
                f"no Kafka brokers given; set {ENVIRONMENT_PREFIX}BROKERS=HOST:PORT, or pass --brokers on a command "
                "line, brokers= in Python"
            )
        if not self.security_protocol:
            protocol = ("SASL_" if self.username else "") + ("SSL" if self.ca_file or self.cert_file else "PLAINTEXT")
            object.__setattr__(self, "security_protocol", protocol)
        self._check_choices()
        for name in ("ca_file", "cert_file", "key_file"):
            value = getattr(self, name)
            if value and not Path(value).is_file():
                raise SettingsError(f"{name}: the file {value!r} does not exist")

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
            raise SettingsError(
                f"a username or password is given, but {self.security_protocol} sends no login; use SASL_SSL or "
                "SASL_PLAINTEXT"
            )
        if not self.uses_tls and (self.ca_file or self.cert_file or self.key_file):
            raise SettingsError(
                f"a certificate file is given, but {self.security_protocol} does not encrypt; use SSL or SASL_SSL"
            )
        if self.key_file and not self.cert_file:
            raise SettingsError("key_file is given without cert_file")

    def __repr__(self) -> str:
        user = f", username={self.username!r}, password=***" if self.username else ""
        return f"KafkaSettings({self.brokers!r}, {self.security_protocol}{user})"

    @property
    def addresses(self) -> list[str]:
        """Addresses of the brokers as a list of `host:port`."""
        return [part.strip() for part in self.brokers.split(",") if part.strip()]

    @property
    def uses_sasl(self) -> bool:
        """True if a client logs in."""
        return self.security_protocol.startswith("SASL_")

    @property
    def uses_tls(self) -> bool:
        """True if the connection is encrypted."""
        return self.security_protocol.endswith("SSL")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str], **given: str | None) -> KafkaSettings:
        """Read each field from `given`, else from `GAPWATCH_KAFKA_<FIELD>`, else take its default.

        Args:
            environment: Variables of the process, such as `os.environ`.
            given: Values by name of the field; None and empty texts count as not given.

        Raises:
            SettingsError: The values contradict each other or name files that do not exist.
        """
        values: dict[str, str] = {"brokers": ""}
        for field in fields(cls):
            value = given.get(field.name) or environment.get(ENVIRONMENT_PREFIX + field.name.upper())
            if value:
                values[field.name] = value
        return cls(**values)

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return the TLS context of a client; None if the connection is not encrypted.

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
        """Return the connection arguments of every aiokafka client.

        Raises:
            SettingsError: A certificate file cannot be read.
        """
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
        raise SettingsError(f"brokers: {address!r} is not HOST:PORT")
