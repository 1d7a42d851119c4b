"""Example: one input of an evaluation, and what the function made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Example:
    """One example of a data set.

    Attributes:
        id: Unique in its data set.
        inputs: Arguments of the function by name.
        output: Value that the function returned, as JSON has it; filled by a run.
        reference: Right answer, where one is known.
        context: Further data, such as the passages of retrieval, or `{"tools": [...]}` with definitions of tools.
        metadata: Further values; they are not shown to the function.
        error: Reason why the call gave no output; None after a call that returned. Filled by a run.
        error_type: Class of that error, such as `TimeoutError`.
        started_at: Start of the call, seconds since the epoch, UTC; None before a run.
        latency_seconds: Duration of the call; None before a run.
        usage: `input_tokens`, `output_tokens` and `cost_usd` of the call, as far as the function tells them.
    """

    id: str
    inputs: Mapping[str, Any]
    output: Any = None
    reference: Any = None
    context: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    error_type: str | None = None
    started_at: float | None = None
    latency_seconds: float | None = None
    usage: Mapping[str, float] | None = None
