"""OTLP requests to raw spans, and raw spans to their fields: protobuf and JSON, one result."""
