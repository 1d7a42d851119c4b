"""Receivers of OTLP: over HTTP and gRPC, with the answers that the OTLP specification asks for."""
