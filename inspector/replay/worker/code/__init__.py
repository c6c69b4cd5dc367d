"""The two programs of a graph: the generated module, and the FX graph that it was made from."""
