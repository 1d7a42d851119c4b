"""Types of a portfolio: component, metric, claim, predicate, field, direction, fact, sampling, envelope."""
