"""A graph's arguments: kept at capture, saved by its forward graph, or made up."""
