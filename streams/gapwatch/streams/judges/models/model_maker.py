"""Makes the adapters of a vendor's models and finds their prices, as the settings say."""

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
#: US dollars per token, input and output.
TokenPrice = tuple[float, float]
#: Returns the price of a model; None if it is not known.
PriceFinder = Callable[[str], TokenPrice | None]


@dataclass(frozen=True)
class ModelAccess:
    """Adapters and prices of the models that a process may ask.

    Attributes:
        settings: Providers, their limits, and caps.
        make_model: Makes the adapter of a vendor's models.
        price_of: Returns the price of a model.
    """

    settings: JudgeSettings
    make_model: ModelMaker
    price_of: PriceFinder


def model_access(settings: JudgeSettings) -> ModelAccess:
    """Return adapters and prices by the settings.

    Raises:
        UsageError: A key that the settings name is missing.
    """
    return ModelAccess(settings, model_maker(settings), price_finder(settings))


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


def price_finder(settings: JudgeSettings) -> PriceFinder:
    """Return the function that finds the price of a model, in US dollars per input and output token.

    Prices come from the settings, then from litellm's price list if its adapter is used; None if neither has one. The
    function raises UsageError for a model whose provider is not in the settings.
    """

    def price_of(model: str) -> TokenPrice | None:
        provider = settings.provider(model.partition("/")[0] if "/" in model else "")  # refused where there is none
        written = settings.prices.get(model)
        if written is not None:
            return written.input / 1e6, written.output / 1e6
        if provider.adapter != "litellm":
            return None
        from gapwatch.streams.judges.models.quiet_litellm import price_of as listed

        return listed(model)

    return price_of
