"""View models: pure functions from model objects to the plain rows and lines that widgets display."""
