"""Assembly of a live run behind logs of its own: the spool of requests, and the log of whole traces."""
