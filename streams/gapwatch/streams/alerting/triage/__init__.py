"""Lists, explains, acknowledges, silences and accepts alerts, and answers questions."""
