"""HTTP: service, query gate, snapshots, page, client."""
