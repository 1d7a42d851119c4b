"""Commands of evaluation: `gapwatch eval`, `metrics` and `test`."""
