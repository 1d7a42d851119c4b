"""Imports litellm on first use, with its bundled price list and without log output; the only file that imports it."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import orjson

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


@dataclass(frozen=True, repr=False)
class WrittenRequest:
    """A request as litellm would send it.

    Attributes:
        url: Its address.
        headers: Its headers, including the key.
        body: Compact JSON in UTF-8.
    """

    url: str
    headers: Mapping[str, str]
    body: bytes


@cache
def _log_classes() -> tuple[type[Any], type[Any]]:
    from litellm.litellm_core_utils.litellm_logging import Logging

    def nothing(*_: Any, **__: Any) -> None:
        return None

    async def nothing_later(*_: Any, **__: Any) -> None:
        return None

    def catch(self: Any, *_: Any, additional_args: Mapping[str, Any], **__: Any) -> None:
        """Record the request that litellm logs, and end the call before it is sent."""
        body = additional_args["complete_input_dict"]
        body = orjson.dumps(orjson.loads(body) if isinstance(body, str | bytes) else body)
        self.written = WrittenRequest(str(additional_args["api_base"]), dict(additional_args["headers"]), body)
        raise InterruptedError("written, and not to be sent")

    silent = dict.fromkeys(
        (
            "pre_call", "post_call", "success_handler", "failure_handler", "response_cost_calculator",
            "handle_sync_success_callbacks_for_async_calls",
        ),
        nothing,
    )  # fmt: skip
    later = dict.fromkeys(("async_success_handler", "async_failure_handler"), nothing_later)
    # `False`: litellm then believes that this success is logged already, and queues nothing.
    silent_log = type("SilentLog", (Logging,), {**silent, **later, "claim_async_success_log": lambda self: False})
    return silent_log, type("CatchingLog", (silent_log,), {"pre_call": catch, "written": None})


def silent_log(model: str, catches: bool = False) -> Any:
    """Return a log of one call that stores nothing; litellm's own takes half of the call's time and keeps its texts.

    Args:
        model: The model.
        catches: True: the call ends before it is sent, and `written` of the log holds its request.
    """
    return _log_classes()[catches](
        model=model, messages=None, stream=False, call_type="acompletion", start_time=datetime.now(),
        litellm_call_id="", function_id="", litellm_trace_id="-",
    )  # fmt: skip


def price_of(model: str) -> tuple[float, float] | None:
    """Return US dollars per input and output token from litellm's price list; None if the model is not in it."""
    litellm = load_litellm()
    for name in (model, model.partition("/")[2]):
        known = litellm.model_cost.get(name)
        if known and known.get("input_cost_per_token") is not None:
            return float(known["input_cost_per_token"]), float(known.get("output_cost_per_token") or 0.0)
    return None
