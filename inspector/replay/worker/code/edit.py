"""A kernel whose source was replaced: what-if on one kernel, compiled beside the original."""

from __future__ import annotations

import ast
from typing import cast

from inspector.replay.worker.code.fx import Function
from inspector.replay.worker.code.generated import CodeError, GeneratedCode


def edited_kernel(code: GeneratedCode, name: str, source: str) -> Function:
    """What launches the kernel `name` of the generated module, made from `source` in place of its own text.

    Raises CodeError where the module defines no such kernel, else what compiling raises.
    """
    from torch._inductor.async_compile import AsyncCompile

    statement = _definition(ast.parse(code.text), name)
    texts = [
        node
        for node in ast.walk(statement)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\n" in node.value
    ]
    if not texts:
        raise CodeError(f"the definition of {name} holds no source text")
    max(texts, key=lambda node: len(str(node.value))).value = source
    space: dict[str, object] = dict(vars(code.module))
    compiler = AsyncCompile() if code.on_cpu is None else code.on_cpu.kernels
    space["async_compile"] = compiler
    module = ast.fix_missing_locations(ast.Module([statement], []))
    exec(compile(module, f"<edited {name}>", "exec"), space)
    compiler.wait(space)
    kernel = space[name]
    return cast(Function, getattr(kernel, "run", kernel))


def _definition(tree: ast.Module, name: str) -> ast.stmt:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == name for target in statement.targets
        ):
            return statement
    raise CodeError(f"output_code.py defines no kernel {name}: only C++ and Triton kernels have a source")
