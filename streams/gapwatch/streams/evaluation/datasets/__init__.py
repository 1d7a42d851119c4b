"""Data sets of examples, read from files, stores, lists and data frames."""
