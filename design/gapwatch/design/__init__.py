"""The program that plans: from a pipeline's source code to a portfolio."""
