"""Files that data sets are read from, and results of a lane for the reports of evaluations."""
