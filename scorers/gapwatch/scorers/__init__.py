"""What a trace, a portfolio and a score are, and how one becomes the other."""
