"""The price of a call, and what the bills of a provider teach about it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from gapwatch.scorers.judges.chat_model import ChatCall

#: Factor on the largest bill beyond the price list, which later calls reserve. Smaller: calls with a slightly larger
#: bill pass the cap.
_MARGIN = 1.5
#: Factor on the mean of all bills, at which a call is booked whose bill is not known. Smaller: if rather dear calls
#: break off, they are booked too low.
_UNKNOWN_MARGIN = 1.25


@dataclass(frozen=True)
class CallPrice:
    """Price of a call, and the budget that pays.

    Attributes:
        portfolio, metric: Owner of the budget.
        input_usd, output_usd: US dollars per token.
        most_output_tokens: Token limit of the reply.
    """

    portfolio: str
    metric: str
    input_usd: float
    output_usd: float
    most_output_tokens: int

    def worst(self, call: ChatCall) -> float:
        """Return the highest possible cost of one attempt in US dollars; a token has at least one byte."""
        return self.longest(most_input_tokens(call))

    def longest(self, input_tokens: float) -> float:
        """Return the cost of the longest reply to so many input tokens in US dollars."""
        return input_tokens * self.input_usd + self.most_output_tokens * self.output_usd

    def of(self, input_tokens: int, output_tokens: int) -> float:
        """Return the cost of billed tokens in US dollars."""
        return input_tokens * self.input_usd + output_tokens * self.output_usd


def most_input_tokens(call: ChatCall) -> int:
    """Return a number of input tokens that no tokenizer exceeds: the bytes, and some for what a provider adds."""
    return sum(len(text.encode()) for _, text in call.messages) + 16 * len(call.messages) + 512


@dataclass
class LearnedPrice:
    """Bills of a provider for a model.

    Attributes:
        ratio: Factor on the highest possible cost by the price list: 1, or more where more was billed.
        is_known: True after the first bill.
        first: Held by the first call until it is billed: under a cap one call finds out, not all at once.
        input_tokens, most_input_tokens: Input tokens of all bills, and the highest number of them that was possible.
        usd, worst_usd: All bills, and the highest costs of their calls by the price list.
    """

    ratio: float = 1.0
    is_known: bool = False
    first: asyncio.Lock = field(default_factory=asyncio.Lock)
    input_tokens: int = 0
    most_input_tokens: int = 0
    usd: float = 0.0
    worst_usd: float = 0.0

    def unknown_bill(self, price: CallPrice, most_tokens: int, worst: float) -> float:
        """Return the cost at which a call is booked whose bill is not known, US dollars.

        Args:
            price: Its price.
            most_tokens: Highest number of its input tokens.
            worst: Highest cost by the price list, US dollars.

        Returns:
            The cost of the longest reply, with as many input tokens by byte as other calls have had on average and a
            quarter more, but no less than a quarter above the mean bill; before the first bill the highest cost.
        """
        most = worst * self.ratio
        if not self.most_input_tokens or not self.worst_usd:
            return most
        share = min(1.0, _UNKNOWN_MARGIN * self.input_tokens / self.most_input_tokens)
        return min(most, max(price.longest(share * most_tokens), _UNKNOWN_MARGIN * worst * self.usd / self.worst_usd))

    def learn(self, usd: float, worst: float, tokens: int, most_tokens: int) -> bool:
        """Learn a bill; return True if it is beyond the highest cost that calls have reserved so far.

        Args:
            usd: The bill, US dollars.
            worst: Highest cost of the call by the price list, US dollars.
            tokens: Billed input tokens.
            most_tokens: Highest number of input tokens.
        """
        self.is_known = True
        self.input_tokens += tokens
        self.most_input_tokens += most_tokens
        self.usd += usd
        self.worst_usd += worst
        if usd <= worst * self.ratio:
            return False
        self.ratio = _MARGIN * usd / worst
        return True
