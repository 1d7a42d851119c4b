"""Pages: the size of a change that somebody is woken for."""
