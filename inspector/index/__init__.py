"""Many runs as tables: `build` reads runs into Parquet, `query` asks them through DuckDB. docs/fleets.md."""
