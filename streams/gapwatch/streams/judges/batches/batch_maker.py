"""Makes the lane of an entry of `providers` whose requests go to a batch interface."""

from __future__ import annotations

from gapwatch.scorers.errors import UsageError
from gapwatch.sinks.verdicts.batch_journal import BatchJournal
from gapwatch.streams.judges.batches.batch_api import BatchApi
from gapwatch.streams.judges.batches.batch_lane import BatchLane, InStoreThread
from gapwatch.streams.judges.calls.judging import Judging
from gapwatch.streams.judges.calls.pool import Deliver, NextRequest
from gapwatch.streams.judges.calls.wallet import Wallet
from gapwatch.streams.judges.secret import read_secret
from gapwatch.streams.judges.settings import JudgeSettings, ProviderSettings


def batch_lane(
    name: str,
    judging: Judging,
    settings: JudgeSettings,
    journal: BatchJournal,
    in_store_thread: InStoreThread,
    next_request: NextRequest,
    deliver: Deliver,
    wallet: Wallet | None,
    patience_seconds: float | None = None,
) -> BatchLane:
    """Return the lane of an entry of `providers` with `mode: batch`; the arguments are those of `BatchLane`.

    Raises:
        UsageError: The key is missing, or the address is no address.
    """
    provider = settings.providers[name]
    api = _api(provider)
    return BatchLane(
        name, judging, api, provider, journal, in_store_thread, next_request, deliver, wallet, patience_seconds
    )


def refuse_batches(settings: JudgeSettings) -> None:
    """Refuse settings with batches where there is no store to write them down.

    Raises:
        UsageError: An entry of `providers` has `mode: batch`.
    """
    named = [name for name, provider in settings.providers.items() if provider.mode == "batch"]
    if named:
        raise UsageError(
            f"mode: batch of the judge settings ({', '.join(named)}) needs the store: judge in the process that "
            "stores, with `gapwatch run --judges`, or with `gapwatch judge run`"
        )


def _api(provider: ProviderSettings) -> BatchApi:
    key = read_secret(provider.key_env, provider.key_file)
    assert provider.base_url is not None
    if provider.batch_api == "anthropic":
        from gapwatch.streams.judges.batches.anthropic_batches import AnthropicBatches

        return AnthropicBatches(provider.base_url, key)
    from gapwatch.streams.judges.batches.openai_batches import OpenaiBatches

    return OpenaiBatches(provider.base_url, key)
