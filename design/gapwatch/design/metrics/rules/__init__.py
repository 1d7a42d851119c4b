"""Rules of the critic that read the code behind a metric, and what they read of it."""
