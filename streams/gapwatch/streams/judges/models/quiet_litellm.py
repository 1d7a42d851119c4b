"""Imports litellm on first use, with its bundled price list and without log output; the only file that imports it."""

from __future__ import annotations

import logging
import os
import warnings
from datetime import datetime
from functools import cache
from typing import Any

from gapwatch.scorers.errors import UsageError


@cache
def load_litellm() -> Any:
    """Import litellm.

    Raises:
        UsageError: It is not installed.
    """
    # Otherwise the import downloads a price list, with three attempts.
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    try:
        import litellm
    except ImportError:
        raise UsageError("litellm is not installed; run: pip install 'gapwatch[judge]'") from None
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    litellm.turn_off_message_logging = True
    litellm.drop_params = False
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pydantic warns about litellm's types at the first answer
        litellm.ModelResponse().model_dump()
    return litellm


@cache
def _silent_log_class() -> type[Any]:
    from litellm.litellm_core_utils.litellm_logging import Logging

    def nothing(*_: Any, **__: Any) -> None:
        return None

    async def nothing_later(*_: Any, **__: Any) -> None:
        return None

    silent = dict.fromkeys(
        (
            "pre_call", "post_call", "success_handler", "failure_handler", "response_cost_calculator",
            "handle_sync_success_callbacks_for_async_calls",
        ),
        nothing,
    )  # fmt: skip
    later = dict.fromkeys(("async_success_handler", "async_failure_handler"), nothing_later)
    # `False`: litellm then believes that this success is logged already, and queues nothing.
    return type("SilentLog", (Logging,), {**silent, **later, "claim_async_success_log": lambda self: False})


def silent_log(model: str) -> Any:
    """Return a log of one call that stores nothing; litellm's own takes half of the call's time and keeps its texts."""
    return _silent_log_class()(
        model=model, messages=None, stream=False, call_type="acompletion", start_time=datetime.now(),
        litellm_call_id="", function_id="", litellm_trace_id="-",
    )  # fmt: skip


def listed_price(model: str) -> tuple[float, float] | None:
    """Return US dollars per input and output token from litellm's price list; None if the model is not in it."""
    litellm = load_litellm()
    for name in (model, model.partition("/")[2]):
        known = litellm.model_cost.get(name)
        if known and known.get("input_cost_per_token") is not None:
            return float(known["input_cost_per_token"]), float(known.get("output_cost_per_token") or 0.0)
    return None
