"""Pages for people on triage, issues and runs of tests, as HTML without values in scripts."""
