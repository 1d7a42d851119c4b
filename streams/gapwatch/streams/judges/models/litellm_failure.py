"""Translates exceptions of litellm into `ModelFailure`."""

from __future__ import annotations

from gapwatch.scorers.judges.chat_model import ModelFailure
from gapwatch.streams.judges.models.chat_completions import is_quota, retry_after

#: Exception of litellm by name, most particular first, to the kind of failure.
_KINDS = (
    ("ContextWindowExceededError", "bad_request"),
    ("ContentPolicyViolationError", "bad_request"),
    ("RateLimitError", "rate_limited"),
    ("AuthenticationError", "refused_key"),
    ("PermissionDeniedError", "forbidden"),
    ("NotFoundError", "no_such_model"),
    ("Timeout", "timeout"),
    ("JSONSchemaValidationError", "bad_reply"),
    ("APIResponseValidationError", "bad_reply"),
    ("ServiceUnavailableError", "unavailable"),
    ("InternalServerError", "unavailable"),
    ("BadGatewayError", "unavailable"),
    ("APIConnectionError", "unavailable"),
    ("UnprocessableEntityError", "bad_request"),
    ("BadRequestError", "bad_request"),
    ("APIError", "unavailable"),
)
#: Texts of litellm's errors for an unreadable answer; their class otherwise means an outage.
_STRANGE_REPLY = ("Empty or invalid response", "Invalid response object", "Unable to get json response")


def litellm_failure(error: Exception) -> ModelFailure:
    """Return the failure for an exception of litellm or of a provider's client."""
    names = {kind.__name__ for kind in type(error).__mro__}
    kind = next((kind for name, kind in _KINDS if name in names), "bad_reply")
    if "Missing credentials" in str(error):  # of the clients of OpenAI and Azure; waiting would not bring them
        kind = "refused_key"
    elif kind == "unavailable" and any(words in str(error) for words in _STRANGE_REPLY):
        kind = "bad_reply"  # the provider answered; as an outage it would open the circuit breaker
    elif kind in ("rate_limited", "bad_request", "forbidden", "refused_key") and is_quota(
        "insufficient_quota" if "insufficient_quota" in str(error) else str(getattr(error, "status_code", "")),
        str(error),
    ):
        kind = "quota_exhausted"
    elif kind in ("unavailable", "bad_reply") and _is_unreachable(error):
        kind = "unreachable"
    wait = None
    if kind == "rate_limited":
        response = getattr(error, "response", None)
        headers = getattr(response, "headers", None) or getattr(error, "litellm_response_headers", None) or {}
        wait = retry_after({str(k).lower(): str(v) for k, v in dict(headers).items()})
    words = getattr(error, "message", None)
    # The provider's text may repeat the request; the kind and the beginning of the text are enough.
    detail = " ".join(str(words).split())[:200] if isinstance(words, str) else ""
    return ModelFailure(kind, f"{type(error).__name__}: {detail}", wait)


def _is_unreachable(error: BaseException) -> bool:
    """Return True if no connection to the provider was made: DNS, TLS, refused, or no answer to connect."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None:
            return False
        names = {kind.__name__ for kind in type(seen).__mro__}
        if names & {"ConnectError", "ConnectTimeout", "ClientConnectorError", "ConnectionTimeoutError"}:
            return True
        seen = seen.__cause__ or seen.__context__
    return False
