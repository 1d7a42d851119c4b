"""`gapwatch design` and its subcommands."""
