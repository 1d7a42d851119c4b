"""HTTP API of the process that writes a store: service, queries, snapshots, page and client."""
