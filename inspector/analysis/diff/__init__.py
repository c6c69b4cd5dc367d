"""Two runs, matched by what they compute: FX nodes first, then graphs and kernel launches by their nodes."""
