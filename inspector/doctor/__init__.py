"""Can this machine compile, and would one see what it compiled? A probe gathers facts, rules judge them."""
