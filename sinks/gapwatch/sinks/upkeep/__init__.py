"""Work on stored rows between slice commits: ticks are joined."""
