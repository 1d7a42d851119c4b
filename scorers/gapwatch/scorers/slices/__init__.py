"""A slice as columns in and scored tables out, and the sampling decision of a trace."""
