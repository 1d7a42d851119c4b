"""One judgement: cache, breaker, limits, wallet, prices."""
