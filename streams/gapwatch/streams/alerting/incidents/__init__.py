"""One incident: its facts, its rows, its attribution."""
