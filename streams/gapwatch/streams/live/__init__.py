"""`gapwatch run`: wiring, outbox relay, retention, portfolio watch."""
