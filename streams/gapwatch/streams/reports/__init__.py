"""Reports that `gapwatch replay`, `run --until-caught-up` and `check --against` print."""
