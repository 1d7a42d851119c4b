"""Loops of agents: a model is asked, what it calls is run, and it is asked again, until something ends the run."""
