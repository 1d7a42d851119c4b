"""Stability triple of a verdict (ADR-0033): the model that answered, the template, the sampling parameters."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

import rfc8785

#: Version of a model whose provider reports no version; such verdicts are flagged.
UNREPORTED = "unreported"

#: Versions at the end of a model's name, as providers write them: a date in several forms, or a short number.
_VERSION = re.compile(
    r"[-@](?P<version>\d{4}-\d{2}-\d{2}|\d{2}-\d{4}|\d{2}-\d{2}|\d{8}|\d{4}|\d{3}|v\d{6,8})(?:-v\d+(?::\d+)?)?\Z"
)
_SPELLINGS = {
    "temperature": ("temperature",),
    "topP": ("top_p", "topP"),
    "topK": ("top_k", "topK"),
    "seed": ("seed",),
}


@dataclass(frozen=True)
class StabilityTriple:
    """Identity of the judge that gave a verdict: model, template, sampling parameters.

    Attributes:
        model_id: `vendor/name@version`, from the provider's reply.
        prompt_sha: sha256 of the template's bytes, or `vendor-managed:<vendor>:<endpoint>`.
        sampling_params_sha: sha256 of the canonical sampling parameters.
    """

    model_id: str
    prompt_sha: str
    sampling_params_sha: str

    @property
    def is_unreported(self) -> bool:
        """True if the provider did not name the version of the model."""
        return self.model_id.endswith(f"@{UNREPORTED}")

    def as_json(self) -> dict[str, str]:
        """Return the triple with the names of ADR-0033."""
        return {
            "modelId": self.model_id,
            "promptSha": self.prompt_sha,
            "samplingParamsSha": self.sampling_params_sha,
        }


def model_id(asked: str, answered: str | None) -> str | None:
    """Return `vendor/name@version`, or None where the reply does not name the model.

    Args:
        asked: `vendor/name` of the portfolio; only the vendor is taken from it.
        answered: Name of the model in the reply.
    """
    if not answered or not answered.strip():
        return None
    vendor, slash, _ = asked.partition("/")
    name = answered.strip()
    if slash and name.startswith(f"{vendor}/"):
        name = name[len(vendor) + 1 :]
    version = UNREPORTED
    if found := _VERSION.search(name):
        version = name[found.start() + 1 :]
        name = name[: found.start()]
    return f"{vendor}/{name}@{version}" if slash else f"{name}@{version}"


def sampling_parameters(params: Mapping[str, object]) -> dict[str, object]:
    """Return the sampling parameters in canonical form: null for one that is not sent, `seed` only if it is set."""
    found = {
        name: next((params[s] for s in spellings if params.get(s) is not None), None)
        for name, spellings in _SPELLINGS.items()
    }
    if found["seed"] is None:
        del found["seed"]
    return found


def sampling_params_sha(params: Mapping[str, object]) -> str:
    """Return the sha256 of the RFC 8785 form of the sampling parameters; the order of keys does not matter.

    Raises:
        ValueError: A parameter is not a JSON value.
    """
    try:
        return hashlib.sha256(rfc8785.dumps(sampling_parameters(params))).hexdigest()  # type: ignore[arg-type]
    except rfc8785.CanonicalizationError as error:
        raise ValueError(f"a sampling parameter is not JSON: {error}") from error
