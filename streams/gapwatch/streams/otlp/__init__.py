"""OTLP: spans of pipelines that are instrumented already, received, assembled to traces and mapped to envelopes."""
