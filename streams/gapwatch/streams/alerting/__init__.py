"""From ticks to alerts: what moved, which way, how much, and no more often than promised."""
