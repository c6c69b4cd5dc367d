"""The statements of a C++ wrapper: that of ``cpp_wrapper`` inside output_code.py, and that of an AOTInductor
package.

Written by torch/_inductor/codegen/cpp_wrapper_cpu.py and cpp_wrapper_gpu.py. Each statement becomes the step
that the Python wrapper's would be. What an ``if`` guards is there once for each branch, as in Python.
"""

from __future__ import annotations

import re
from dataclasses import replace

from inspector.model.code import (
    Alias,
    Allocation,
    Free,
    Kernel,
    KernelCall,
    KernelKind,
    OtherStep,
    SizeAssertion,
)
from inspector.model.source import LineSpan

from .brackets import split_commas
from .generated import arguments, parse_extents
from .kernels import c_parameters, cpp_kernel, written_parameters
from .wrapper import Function, Walker

# ``extern "C"  void  cpp_fused_add_0(const float* in_ptr0,\n   float* out_ptr0)\n{``: a definition's head; or
# ``static inline void call_triton_poi_fused_0(\n    const T& in_ptr0, ...\n){``: what launches one.
_KERNEL = re.compile(
    r'^(?:extern "C" +void +(?P<cpp>\w+)\([^;{}()]*\)\n'
    r"|static inline void call_(?P<triton>triton_\w+)\((?P<parameters>[^;{}()]*)\) ?)\{",
    re.MULTILINE,
)

# ``static constexpr int64_t int_array_0[] = {32L, 64L};``, ``static constexpr int64_t *int_array_4=nullptr;``
_ARRAY = re.compile(r"(?:static )?const(?:expr)? int64_t \*?(\w+?)(?:\[\])? ?= ?(?:\{(.*)\}|nullptr);$")

# ``auto buf4 = std::move(buf0);  // reuse``, ``auto arg0_1 = std::move(inputs[0]);``
_MOVE = re.compile(r"(?:auto )?(\w+) = std::move\((\w+)(\[\d+\])?\);(?:  // (\w+))?$")

# ``auto var_0 = wrap_with_raii_handle_if_needed(reinterpret_tensor_wrapper(buf2, 1, int_array_5, ...));``
_VIEW = re.compile(
    r"(?:auto |RAIIAtenTensorHandle )(\w+)(?: = |\()(?:\w+\()*reinterpret_tensor_wrapper\((\w+),"
)

# ``AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_item_int64(inputs[2], &arg2_1));``, ``int64_t s77 = arg2_1;``
_NUMBER_INPUT = re.compile(r".*aoti_torch_item_\w{1,40}\(inputs\[\d+\], &(\w+)\)")
_SYMBOL = re.compile(r"int64_t ((?:s|u)\d+) = (\w+);$")

# ``[[maybe_unused]] auto& l_weight = constants_->at(0);``
_CONSTANT = re.compile(r"(?:\[\[maybe_unused\]\] )?auto& (\w+) = constants_->at\(")

# ``RAIIAtenTensorHandle buf0(buf0_handle);``
_OWNER = re.compile(r"RAIIAtenTensorHandle (\w+)(?:\((\w+)\))?;$")

# ``output_handles[0] = buf4.release();``
_OUTPUT = re.compile(r"output_handles\[\d+\] = (\w+)")

# ``AOTI_TORCH_ERROR_CODE_CHECK(aoti_torch_cpu_mm_out(buf0, arg0_1, arg1_1));``, a kernel without the check.
_CALL = re.compile(r"(?:AOTI_TORCH_ERROR_CODE_CHECK\(\s*)?(?:[\w.>-]+[.>])?(\w+)\(")

# ``aoti_torch_cpu_sort_stable``, ``aoti_torch_scatter_out``: the shims of operators; others ask or prepare.
_OPERATOR = re.compile(r"aoti_torch_(?:(?:cpu|cuda|xpu|mps|mtia)_)(\w+)|aoti_torch_(\w+_out)$")

# ``call_triton_poi_fused_0(``; ``launchKernel(kernels.triton_poi_fused_0, ...`` (before 2.7)
_TRITON = re.compile(r"(?:call_|wrapper_call_)?((?:triton|cutlass|cuda)_\w+)$")

# ``aoti_torch_new_tensor_handle(buf5, &tmp_var_0);`` and ``dispatch_vars{...from(tmp_var_0)};``
_BOXED = re.compile(r"aoti_torch_new_tensor_handle\((\w+), &(\w+)\)")
_UNBOXED = re.compile(r"(\w+) = torch::stable::detail::to<AtenTensorHandle>\(")
_NAME = re.compile(r"[A-Za-z_]\w*")
_HANDLE = re.compile(r"&(\w+?)_handle\b")
_POINTERS = re.compile(r"\b(\w+?)_handle\b")

_NOT_LAUNCHES = ("empty_strided", "assign_tensors_out", "copy_handle", "as_strided")
"""Shims of tensors without any work, by what their names hold."""

_LIBRARY = {"mm", "addmm", "bmm", "baddbmm", "_int_mm", "_scaled_mm", "convolution", "bias_addmm"}
"""What the Python wrapper calls as ``extern_kernels.X`` (torch/_inductor/kernel: ExternKernelChoice)."""


def cpp_kernels(text: str) -> dict[str, Kernel]:
    """The C++ kernels that `text` defines, by name, and the functions that launch Triton's, whose source it
    has not."""
    kernels: dict[str, Kernel] = {}
    position = line = 0
    for head in _KERNEL.finditer(text):
        end = text.find("\n}\n", head.end())
        stop = end + 2 if end >= 0 else len(text)
        line += text.count("\n", position, head.start())
        position = head.start()
        source = text[position:stop]
        span = LineSpan(line + 1, line + 1 + source.count("\n"))
        name = head["cpp"] or head["triton"]
        kernel = cpp_kernel(name, source, span)
        if head["triton"]:
            kernel = replace(kernel, kind="triton", parameters=c_parameters(head["parameters"]))
        kernels[name] = kernel
    return kernels


class CppWalker(Walker):
    """Turns the statements of a C++ wrapper into steps."""

    def __init__(self, path: str, function: Function, kernels: dict[str, Kernel]) -> None:
        super().__init__(path, {function.name: function}, kernels, frozenset(), frozenset(), ())
        self._arrays: dict[str, str] = {}
        self._boxed: dict[str, str] = {}
        self._dispatched: tuple[str, ...] = ()

    def _statement(self, text: str, span: LineSpan) -> None:
        if text.startswith("// "):
            self._comment(f"#{text[2:]}", span)
        elif text == "return;":
            self.returned = True
        elif text.startswith("assert_size_stride("):
            self._checked(text, span)
        elif (array := _ARRAY.match(text)) is not None:
            self._arrays[array[1]] = _extents(array[2] or "")
            self.steps.append(OtherStep(text, span))
        elif (move := _MOVE.match(text)) is not None:
            self._move(move, text, span)
        elif text.endswith(".reset();") and (name := text[:-9]).isidentifier():
            self.steps.append(Free((name,), span))
        elif (view := _VIEW.match(text)) is not None:
            self._bind(view[1])
            reused = text.endswith("// reuse")
            self.steps.append(Alias("reuse" if reused else "view", view[1], view[2], text, span))
        elif (number := _NUMBER_INPUT.match(text)) is not None:
            self.inputs += (number[1],)
            self.steps.append(OtherStep(text, span))
        elif (symbol := _SYMBOL.match(text)) is not None:
            self.steps.append(Alias("symbol", symbol[1], symbol[2], text, span))
        elif (bound := _CONSTANT.match(text) or _OWNER.match(text)) is not None:
            self._bind(bound[1])
            self.steps.append(OtherStep(text, span))
        elif (output := _OUTPUT.match(text)) is not None:
            self.outputs += (output[1],)
            self.steps.append(OtherStep(text, span))
        else:
            self._call(text, span)

    def _checked(self, text: str, span: LineSpan) -> None:
        """``assert_size_stride(arg0_1, {s77, 64L}, {64L, 1L}, "input");``"""
        parts = arguments(text, text.find("(") + 1)[0]
        if len(parts) < 3:
            self.steps.append(OtherStep(text, span))
            return
        size, stride = (parse_extents(_extents(part)) for part in parts[1:3])
        self.steps.append(SizeAssertion(parts[0], size, stride, span))

    def _bind(self, name: str) -> None:
        self._tensors.add(name)

    def _move(self, move: re.Match[str], text: str, span: LineSpan) -> None:
        name, source, index, comment = move.groups()
        self._bind(name)
        if index is not None:
            self.inputs += (name,)
            self.steps.append(OtherStep(text, span))
        else:
            self.steps.append(Alias("reuse" if comment == "reuse" else "view", name, source, text, span))

    def _call(self, text: str, span: LineSpan) -> None:
        """A launch, an allocation, or what only prepares one."""
        call = _CALL.match(text)
        name = call[1] if call is not None else ""
        if call is None or not name:
            self._other(text, span)
        elif name.startswith("aoti_torch_empty_strided"):
            self._allocate(arguments(text, call.end())[0], text, span)
        elif name == "aoti_torch_call_dispatcher":
            parts = arguments(text, call.end())[0]
            names = [part.strip('"') for part in parts[:2]]
            called = ".".join(["torch.ops", *".".join(filter(None, names)).split("::")])
            self._add(called, "fallback", self._dispatched, text, span)
        elif name == "aoti_torch_proxy_executor_call_function":
            parts = arguments(text, call.end())[0]
            called = f"proxy_executor[{parts[1] if len(parts) > 1 else '?'}]"
            self._add(called, "fallback", parts[2:], text, span)
        elif name == "launchKernel":
            parts = arguments(text, call.end())[0]
            self._add(parts[0].rpartition(".")[2] if parts else "", "triton", parts[1:], text, span)
        elif name.removeprefix("call_") in self._kernels:
            kernel = self._kernels[name.removeprefix("call_")]
            self._add(kernel.name, kernel.kind, arguments(text, call.end())[0], text, span)
        elif (triton := _TRITON.match(name)) is not None:
            self._add(triton[1], "triton", arguments(text, call.end())[0], text, span)
        elif name.startswith("cpp_fused"):
            self._add(name, "cpp", arguments(text, call.end())[0], text, span)
        elif (shim := _OPERATOR.match(name)) is not None and not any(part in name for part in _NOT_LAUNCHES):
            operator = (shim[1] or shim[2]).removesuffix("_out")
            kind: KernelKind = "extern" if operator in _LIBRARY else "fallback"
            self._add(name, kind, arguments(text, call.end())[0], text, span)
        else:
            self._other(text, span)

    def _other(self, text: str, span: LineSpan) -> None:
        if (boxed := _BOXED.search(text)) is not None:
            self._boxed[boxed[2]] = boxed[1]
        elif "dispatch_vars{" in text:
            names = _NAME.findall(text.partition("{")[2])
            self._dispatched = tuple(self._boxed[name] for name in names if name in self._boxed)
        elif (unboxed := _UNBOXED.match(text)) is not None:
            self._bind(unboxed[1])
            self._returned_by_last(unboxed[1])
        else:
            for name in _HANDLE.findall(text):
                self._bind(name)
        self.steps.append(OtherStep(text, span))

    def _returned_by_last(self, name: str) -> None:
        """What the dispatcher gave back is taken out of its array in a statement of its own."""
        for position in range(len(self.steps) - 1, -1, -1):
            step = self.steps[position]
            if isinstance(step, KernelCall):
                buffers = dict.fromkeys((*step.buffers, name))
                self.steps[position] = replace(step, outputs=(*step.outputs, name), buffers=tuple(buffers))
                return

    def _allocate(self, parts: tuple[str, ...], text: str, span: LineSpan) -> None:
        """``aoti_torch_empty_strided(2, sizes, strides, dtype, cpu, 0, &buf0_handle)``"""
        if len(parts) < 7:
            self.steps.append(OtherStep(text, span))
            return
        size, stride = (parse_extents(self._arrays.get(part, _extents(part))) for part in parts[1:3])
        name = parts[6].removeprefix("&").removesuffix("_handle")
        self._bind(name)
        dtype = parts[3].removeprefix("cached_torch_dtype_")
        device = parts[4].removeprefix("cached_torch_device_type_")
        self.steps.append(Allocation(name, size, stride, dtype, device, span))

    def _add(self, kernel: str, kind: KernelKind, parts: tuple[str, ...], text: str, span: LineSpan) -> None:
        if kernel not in self._kernels:
            self._kernels[kernel] = Kernel(kernel, kind)
        parts = tuple(_POINTERS.sub(r"\1", part) if part.startswith("&") else part for part in parts)
        outputs = [part[1:] for part in parts if part.startswith("&") and part[1:].isidentifier()]
        outputs = [name for name in outputs if f"&{name}_handle" in text]
        for name in outputs:
            self._bind(name)
        written = written_parameters(self._kernels[kernel])
        if _OPERATOR.match(kernel) is not None and kernel.endswith("_out"):
            written = (0,)
        for position in written:
            outputs += self._names_in(parts[position]) if position < len(parts) else []
        self._add_call(kernel, kind, parts, ", ".join(parts), outputs, text, span)


def _extents(text: str) -> str:
    """``{32L, static_cast<int64_t>(s53*s53)}`` as the Python wrapper would write it."""
    plain = re.sub(r"static_cast<int64_t>\(([^()]*)\)", r"(\1)", text)
    plain = re.sub(r"\b(\d+)L+\b", r"\1", plain.strip().strip("{}"))
    return f"({', '.join(split_commas(plain))},)" if plain.strip() else "()"
