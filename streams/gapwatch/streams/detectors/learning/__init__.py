"""Units that a baseline does not learn: those under a suspected change, and those of an incident."""
