"""Source files, syntax trees, intermediate form, program."""
