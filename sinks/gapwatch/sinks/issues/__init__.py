"""Issues and their tests: append-only records of people's decisions, read, written and triaged."""
