"""Routes: places where an answer can be reached in more than one ordered way."""
