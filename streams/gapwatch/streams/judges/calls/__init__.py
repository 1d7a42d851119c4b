"""One judge call: cache, retries, circuit breaker, rate limits, budget, prices."""
