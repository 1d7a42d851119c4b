"""Reports that replay, check and against print."""
