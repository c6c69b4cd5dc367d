"""The program calls a method of a compiled module that calls the module itself: ``model.loss(x)``, with
``self(x)`` in it. A compiled module hands on its other methods as they are, so that these run in eager, and
what they call of the module, too (torch/_dynamo/eval_frame.py: OptimizedModule.__getattr__).

Looks at: the source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from inspector.explain.case import Case
from inspector.explain.program import Program
from inspector.explain.rule import Rule, Stage
from inspector.model.explain import Finding

# model.nll(
_CALL = re.compile(r"\b(\w+)\.(\w+)\(")
#     def nll(self, x):
_METHOD = re.compile(r"(?P<indent>\s+)def (?P<name>\w+)\(self\b")
_ITSELF = re.compile(r"\bself(?:\.forward)?\(")
_COMPILED = frozenset({"forward", "__call__"})
"""What a call of the compiled module runs."""

FEW_CALLS = 10
"""Of what was compiled: with so few of them the program works elsewhere."""


def find(case: Case) -> Iterable[Finding]:
    """The first such call of each program."""
    for program in case.programs:
        methods = _methods(program) - program.compiled_names - _COMPILED
        # Of a module that was compiled in place, net.compile(), calls of itself are compiled.
        wrapped = {
            call.name
            for call in program.compile_calls
            if call.name is not None and f"{call.name}.compile(" not in program.line(call.line)
        }
        calls = (
            (number, owner, method)
            for number, text in enumerate(program.lines, 1)
            for owner, method in (_CALL.findall(text) if methods else ())
            if owner in wrapped and method in methods
        )
        for number, owner, method in list(calls)[:1]:
            at = [call.line for call in program.compile_calls if call.name == owner]
            yield Finding(
                rule="method_not_compiled",
                severity="high" if program.in_loop(number) or case.times.calls < FEW_CALLS else "medium",
                title=(
                    f"{owner}.{method}() runs in eager, and what it calls of its module: of a compiled "
                    "module only a call of it runs what was compiled"
                ),
                graph=None,
                cost_ms=None,
                evidence=tuple(program.evidence(line) for line in (number, *at)),
                advice=(
                    f"compile the method, {method} = torch.compile({owner}.{method}), or the module in place "
                    "with its .compile() in place of torch.compile, so that calls of itself are compiled"
                ),
                how="measured",
            )


def _methods(program: Program) -> set[str]:
    """Methods of the program's classes that call what they belong to."""
    found: set[str] = set()
    name, width = "", 0
    for text in program.lines:
        method = _METHOD.match(text)
        if method is not None:
            name, width = method["name"], len(method["indent"])
        elif text.strip() and len(text) - len(text.lstrip()) <= width:
            name = ""
        elif name and _ITSELF.search(text):
            found.add(name)
    return found


RULE = Rule("method_not_compiled", Stage.VOID, find)
