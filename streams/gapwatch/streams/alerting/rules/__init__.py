"""Which way is bad, bounds, and shares of the false-alarm budget."""
