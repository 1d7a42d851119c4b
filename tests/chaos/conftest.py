"""What the tests of a killed run share with those of one that is left alone."""

from tests.streams.run_fixtures import children, watch

__all__ = ["children", "watch"]
