"""Units and values by series and tick."""
