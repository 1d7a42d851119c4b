"""Version of the API, sent with each answer, so that a client of another version stops with a clear error."""

from __future__ import annotations

from gapwatch.sinks.store.schema import SCHEMA_VERSION

#: Header of each answer of the API.
API_HEADER = "Gapwatch-Api"
#: Version of paths and bodies, and of the tables: commands send queries on them.
API_VERSION = f"1.{SCHEMA_VERSION}"
