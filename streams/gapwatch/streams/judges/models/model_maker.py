"""Makes the adapters of a vendor's models, as the settings say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gapwatch.scorers.errors import UsageError
from gapwatch.scorers.judges.chat_model import ChatModel
from gapwatch.streams.judges.models.keyless_model import KeylessModel
from gapwatch.streams.judges.secret import environment_secrets, read_secret
from gapwatch.streams.judges.settings import JudgeSettings

#: Makes the adapter of a vendor's models.
ModelMaker = Callable[[str], ChatModel]


@dataclass(frozen=True)
class ModelAccess:
    """Models that a process may ask.

    Attributes:
        settings: Providers, their limits, prices, and caps.
        make_model: Makes the adapter of a vendor's models.
    """

    settings: JudgeSettings
    make_model: ModelMaker


def model_access(settings: JudgeSettings) -> ModelAccess:
    """Return the adapters by the settings.

    Raises:
        UsageError: A key that the settings name is missing.
    """
    return ModelAccess(settings, model_maker(settings))


def model_maker(settings: JudgeSettings) -> ModelMaker:
    """Return the function that makes the adapter of a vendor; keys are read now, to report a missing one at once.

    Raises:
        UsageError: A key that the settings name is missing.
    """
    keys = {vendor: read_secret(p.key_env, p.key_file) for vendor, p in settings.providers.items()}

    def make(vendor: str) -> ChatModel:
        provider = settings.provider(vendor)
        key = keys[vendor if vendor in settings.providers else "*"]
        if provider.adapter == "litellm":
            from gapwatch.streams.judges.models.litellm_model import LitellmModel

            # Without a key in the settings, litellm sends one of the environment.
            return KeylessModel(LitellmModel(key, provider.base_url), environment_secrets() if key is None else (key,))
        try:
            from gapwatch.streams.judges.models.http_model import HttpModel
        except ImportError:
            raise UsageError("judges over HTTP need aiohttp, run: pip install 'gapwatch[judge]'") from None
        assert provider.base_url is not None
        model = HttpModel(provider.base_url, key)
        return model if key is None else KeylessModel(model, (key,))

    return make
