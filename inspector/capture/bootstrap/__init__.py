"""The folder that is put first on the child's PYTHONPATH when a capture sets a mode or config values."""
