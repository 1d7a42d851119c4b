"""A slow, row-by-row reading of the contract: the oracle against which the compiled plan is held."""
