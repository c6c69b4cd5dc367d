"""The words of the screens, each in two lines for somebody who never heard of the compiler."""

from __future__ import annotations

import re

_TEXT = """\
eager
  The program as it runs without torch.compile: one operator after another, each called from Python.
compiled
  The program as torch.compile runs it: generated kernels in place of most operators.
graph
  A part of the program that was compiled as a whole. A program that never has to stop in between is
  one graph.
graph break
  A line that torch.compile cannot compile: the graph ends there, Python runs that line, and a new
  graph begins.
guard
  A check before compiled code runs that its inputs are as when it was compiled: sizes, dtypes,
  flags.
recompile
  A guard failed, so the function was compiled once more, for the inputs as they are now.
kernel
  A function that runs on the device over many elements at once. Eager launches one or more for each
  operator.
library kernel
  A kernel that a library brings (cuBLAS, oneDNN, cuDNN) for matrix products, convolutions or
  attention.
generated kernel
  A kernel that Inductor wrote for this program, in Triton for GPUs and in C++ for CPUs.
template
  A kernel for matrix products that Inductor fills in, so that operators around it can be fused in.
fallback
  An operator that Inductor has no code for: it runs as in eager, in the middle of compiled code.
fusion
  Several operators in one kernel, so that what is between them need not go through memory.
launch
  Starting a kernel. It takes the host some microseconds, whatever the kernel's size.
wrapper
  The generated Python that allocates memory and launches a graph's kernels one by one.
host
  The CPU with the Python program on it, as opposed to the device that computes.
FX
  The list of operators that torch.compile saw, as torch.fx keeps it, before and after its own
  changes.
scheduler node
  A piece of work that Inductor orders and fuses: mostly one operator, later one kernel.
extern
  A call of a library's kernel or of an operator as it is in eager.
CUDA graph
  All launches of a call recorded once and started together, so that the host has one to make.
  mode="reduce-overhead" asks for it.
reduce-overhead
  The mode of torch.compile that records CUDA graphs: fewer launches, more memory.
max-autotune
  The mode of torch.compile that tries many kernels for matrix products and takes the fastest.
  Compiling takes longer.
steady
  A call during which nothing was compiled: the first calls of a program are none.
measured
  Timed in this run, of this thing.
profiled
  Timed by torch's profiler in a few calls of this run, which makes those calls a little longer.
replayed
  A kernel run again alone, many times: caches may be warmer and clocks other than in the program.
estimated
  Worked out from sizes and what such a machine usually does. Nobody timed it.
unexplained
  Time that was measured and that no part of the list accounts for.
op by op
  The compiled graph run one operator at a time. It is slower than eager, which has larger
  operators.
roofline
  The least time that memory and arithmetic of this machine allow for the work.
autotune
  Timing several versions of a kernel while compiling, to keep the fastest.
dynamo
  The part of torch.compile that reads Python and takes graphs out of it.
inductor
  The part of torch.compile that turns graphs into kernels.
ATen
  Torch's own library of operators: what eager calls.
mismatch
  A result outside the tolerance of its dtype, farther from float64 than eager's.
provenance
  Which lines of the program a kernel does the work of.
"""
_ENTRY = re.compile(r"^(\S.*)\n((?:  .*\n)+)", re.MULTILINE)
TERMS: dict[str, str] = {
    match[1]: " ".join(line.strip() for line in match[2].splitlines()) for match in _ENTRY.finditer(_TEXT)
}
_WORD = {
    term: re.compile(rf"\b{re.escape(term)}(?:s|es|ed)?\b", 0 if term.isupper() else re.IGNORECASE)
    for term in TERMS
}


def terms_in(text: str, most: int = 3) -> list[tuple[str, str]]:
    """The terms in a line with what they mean, in the order in which they stand there; of "graph break" not
    also "graph"."""
    places = [
        (match.start(), term) for term, word in _WORD.items() if (match := word.search(text)) is not None
    ]
    terms = [term for _, term in sorted(places)]
    kept = [term for term in terms if not any(term != other and term in other for other in terms)]
    return [(term, TERMS[term]) for term in kept[:most]]


def glossary() -> str:
    """All of it, to be read."""
    return _TEXT
