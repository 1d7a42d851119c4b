"""Reports of a run: Markdown, JSON, JUnit XML, and gates."""
