"""What a judge is asked, how its answer is read, and what pins it: the pure part of judging."""
