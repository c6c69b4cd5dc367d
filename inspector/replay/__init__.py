"""Runs captured code again, checks it against eager and float64, and times it.

`plan` works out what the child must know, `spawn` runs a child per graph and gathers what it says, `worker`
is the child, `protocol` all that passes between them. `store` keeps results, `edits` what-ifs on one kernel.
"""
