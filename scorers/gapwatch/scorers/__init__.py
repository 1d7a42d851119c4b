"""Types of traces, portfolios and scores, and the functions that score a slice of traces."""
