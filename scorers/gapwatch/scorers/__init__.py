"""Types of traces, portfolios and scores, and the query that scores a slice of traces."""
