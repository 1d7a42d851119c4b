"""The program that watches: from a source of traces to gap rows, rates and alerts."""
