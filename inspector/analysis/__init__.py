"""Pure functions from model to model: no I/O, no torch, no user interface."""
