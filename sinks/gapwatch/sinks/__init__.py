"""Where results rest: DuckDB, Prometheus, Kafka."""
