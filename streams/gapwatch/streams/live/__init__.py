"""The process of `gapwatch run`: its parts, outbox relay, retention, portfolio reload and load shedding."""
