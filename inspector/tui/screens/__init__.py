"""Screens: runs, one run, one compiled graph, help. They start workers and own what these post."""
