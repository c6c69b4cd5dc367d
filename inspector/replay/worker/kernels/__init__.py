"""Launch by launch: what it gets, whether it gives what it should, how long it takes."""
