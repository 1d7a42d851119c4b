"""Questions to a store and their answers as tables, files and JSON."""
