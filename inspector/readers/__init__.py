"""One module per artifact format: text in, model objects out. Nothing from a run is ever executed.

A parser never raises for bad content: what it cannot read becomes a `Problem` with path and line,
and it goes on. Paths given to parsers are labels for those problems.
"""
