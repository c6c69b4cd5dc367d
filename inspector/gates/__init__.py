"""Relations that a compiled program has to keep, on any GPU and any version of torch, and whether it does."""
