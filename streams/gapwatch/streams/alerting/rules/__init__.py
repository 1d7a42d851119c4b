"""Alert rules of metrics, bounds on failure rates, and shares of the false-alarm budget."""
