"""fx_graph_runnable.py: settings, GPUs and symbolic sizes of one compiled graph.

torch/_dynamo/repro/after_aot.py: generate_compiler_repro_string writes, in this order: hints of
symbolic sizes, environment, imports, settings, versions and GPUs as comments, Triton kernels of
the user, ``class Repro`` with the graph, and ``load_args``, which makes its inputs. The graph is
read from fx_graph_readable.py, and the inputs are made by the child that replays.

The script is taken apart as text and never executed.
"""

from __future__ import annotations

import re

from inspector.model.problem import Problem
from inspector.model.runnable import RunnableScript

# s77 = 16
_SYMBOL = re.compile(r"^(\w+) = (-?\d+)$", re.MULTILINE)

# torch._inductor.config.triton.store_cubin = False
_SETTING = re.compile(r"^(?=torch\.[\w.]*config\.[\w.])(torch\.[\w.]+) = (.*)$", re.MULTILINE)

# # GPU Hardware Info:
# # NVIDIA H200 : 1
_HARDWARE = re.compile(r"^# GPU Hardware Info: *\n((?:# .* : \d+ *\n)*)", re.MULTILINE)

# # NVIDIA H200 : 1
_DEVICE = re.compile(r"^# (.*) : (\d+) *$", re.MULTILINE)

_GRAPH_HEAD = "\nclass Repro("
_INPUTS_HEAD = "\ndef load_args(reader):"
_AFTER_INPUTS = re.compile(r"^(?:load_args\.|mod = )", re.MULTILINE)


def is_cut(text: str) -> bool:
    """Whether the end of the script is missing (torch/_dynamo/repro/after_aot.py: save_graph_repro); torch
    may also have refused to write one, and says so in its place."""
    whole = text.rstrip().endswith("mod(*args)") or "not generated" in text
    return not whole and text.strip() != ""


def parse_runnable(text: str, path: str) -> RunnableScript:
    """The facts in a repro script; `path` is only used in problems. Never raises.

    A script that torch refused to write (it says so in one sentence), or that is cut, gives what
    there is and a problem.
    """
    source = "\n" + text.replace("\r\n", "\n")
    graph_at, inputs_at = source.find(_GRAPH_HEAD), source.find(_INPUTS_HEAD)
    messages = []
    if graph_at < 0:
        refusal = text.strip().partition("\n")[0][:200]
        messages.append(refusal if "not generated" in text else "no class Repro: cut short?")
    if inputs_at < 0:
        messages.append("no load_args: the inputs are not known")
    elif not _AFTER_INPUTS.search(source, inputs_at):
        messages.append("load_args does not end: cut short?")
    preamble = source[: min((at for at in (graph_at, inputs_at) if at >= 0), default=None)] + "\n"
    hardware = _HARDWARE.search(preamble)
    return RunnableScript(
        tuple((name.strip(), int(count)) for name, count in _DEVICE.findall(hardware[1] if hardware else "")),
        tuple((name, value) for name, value in _SETTING.findall(preamble)),
        {name: int(value) for name, value in _SYMBOL.findall(preamble.partition("\nimport ")[0])},
        tuple(Problem(path, None, message) for message in messages),
    )
