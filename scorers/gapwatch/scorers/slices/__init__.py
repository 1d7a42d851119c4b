"""A slice of records as columns, its scored tables, and the selection of traces."""
