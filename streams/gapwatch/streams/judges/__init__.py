"""LLM judges: models, limits, budgets, and the workers that answer pending requests."""
