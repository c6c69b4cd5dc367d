"""JSON out: one module per command, with a schema of each in docs/schema."""
