"""A launch that is right on the values that the graph gives it, tried on other kinds of values."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from inspector.model.replay import KIND_WORDS, KernelReplay, ValueKind
from inspector.replay import protocol
from inspector.replay.protocol import PlannedCall
from inspector.replay.worker.code.fx import Function, tensors_of
from inspector.replay.worker.events import Failure, describe
from inspector.replay.worker.kernels.expected import Expected, Launch
from inspector.replay.worker.kernels.facts import EXPECTED_ERRORS, Context
from inspector.replay.worker.kernels.glanced import glanced
from inspector.replay.worker.kernels.judging import Judge, fill_unwritten, is_fault, overall
from inspector.replay.worker.kernels.loops import Loops
from inspector.replay.worker.kernels.own_kernels import own_kernel
from inspector.replay.worker.kernels.repro import Programs
from inspector.replay.worker.kernels.solved import Solver
from inspector.replay.worker.kernels.tensors import LaunchTensors
from inspector.replay.worker.kernels.ways import Ways
from inspector.replay.worker.reference.buffers import Leaf, flat_memory
from inspector.replay.worker.timing.rounds import synchronise

_VARIED = frozenset({"match", "compiled_closer", "eager_closer"})
"""Verdicts on the values that a launch really gets after which it is tried on others."""

_VARY_S = 4.0
"""Seconds that trying one launch on other kinds of values may take, by what the kinds before took."""

_AGAIN_S = 0.6
_AGAIN_INTERPRETED_S = 1.5
"""Seconds of computing for trying kinds a second time, with what the first time took."""

_SOLVE_S, _SOLVE_WALL_S = 1.0, 12.0
"""Seconds of computing for values that are solved for, and by the clock where the machine is busy."""

_SOLVED_ONCE = 3
"""Times as many until each input was solved for in each way."""

_COPIES, _COPIES_INTERPRETED = 64, 12
"""Launches that are solved for at once."""

_MOST_MEMORY = 1 << 17
"""Elements of all of their memories, where numbers are drawn for them."""

_JUDGED, _NEAREST = 8, 2
"""Of them those that are judged: the farthest off, in which it may be free, and the nearest."""

_LEAST_CERTAIN = 0.1
"""Part of an output on which a kind of values must have a certain answer to count as looked at."""


class OtherValues:
    """Runs launches again on values of its own, which are taken back afterwards."""

    def __init__(self, context: Context, tensors: LaunchTensors, judge: Judge, programs: Programs) -> None:
        self._context = context
        self._code = context.code
        self._reporter = context.reporter
        self._tensors = tensors
        self._judge = judge
        self._programs = programs
        self._partly = False
        self._draws: Ways | None = None
        self._follow: list[tuple[Leaf, Tensor]] = []
        self._solved_for: set[str] = set()
        """Sources of kernels that were tried on values that are solved for: once each, as that takes long."""

    def try_on(
        self,
        launch: Launch,
        names: Mapping[str, object],
        function: Function,
        args: Sequence[object],
        kwargs: dict[str, object],
        judged: KernelReplay,
        took_s: float,
        source: str = "",
    ) -> None:
        """The same launch on other kinds of values; reports it again with what was looked at. Afterwards
        inputs and outputs are as they were. `took_s`: its check on the graph's own values. `source`: of the
        kernel where it is not the module's."""
        call = launch.call
        bodies = [leaf.body for leaf in self._context.plan.leaves if leaf.entry in call.entries and leaf.body]
        own = call.kind == "user"
        if own:
            bodies = _constants(self._code.text_of(call.kernel))
        elif call.kind == "template":
            # A template has no loop body of its own: it adds up products.
            bodies = [*bodies, "ops.reduction"]
        if not bodies or judged.verdict not in _VARIED:
            return
        seed, arguments = self._context.request.options.seed, self._context.plan.inputs
        made_for = self._context.made_for
        floats = own or bodies == ["ops.reduction"]
        code = source or self._code.text_of(call.kernel)
        known = {"arguments": arguments, "code": code, "symbols": launch.facts.layouts.symbols}
        draws = self._draws = Ways(bodies, made_for, seed, only_floats=floats, **known)  # type: ignore[arg-type]
        # What a wrapper passes as a number (`scale.item()`) stays.
        passed = {leaf.untyped_storage().data_ptr() for leaf in tensors_of((args, kwargs))}
        inputs = {
            name: tensor
            for name, tensor in self._tensors.inputs(call, names).items()
            if tensor.untyped_storage().data_ptr() in passed and name not in draws.kept
        }
        self._follow = self._following(call, inputs)
        draws.widths = {name: _width(tensor) for name, tensor in inputs.items()}
        outputs = [names[name] for name in call.outputs if isinstance(names.get(name), Tensor)]
        # What the launch changed in place is drawn after what it was given.
        given = {name: launch.reads.get(name, tensor) for name, tensor in inputs.items()}
        flat = {name: flat_memory(tensor).clone() for name, tensor in given.items()}
        memories = [flat_memory(tensor) for tensor in (*inputs.values(), *outputs)]
        before = [memory.clone() for memory in memories]
        kinds = list(judged.kinds)
        spent, least = 0.0, 2 * took_s
        begun_s, computed = time.process_time(), 0.0
        kernel = self._code.interpreted(function)
        settings = kernel.settings if kernel is not None else None
        again_s = _AGAIN_S if kernel is None else _AGAIN_INTERPRETED_S
        try:
            counts = {name: memory.numel() for name, memory in flat.items()}
            order = [*draws.kinds(), *draws.again(counts)]
            first = len(draws.kinds())
            for number, kind in enumerate(order):
                # The first kind may take longer, lest a slow launch be tried on none.
                if spent + least > (_VARY_S if number else 3 * _VARY_S):
                    break
                # What else the machine does decides nothing of a second time.
                earlier, computed = computed, time.process_time() - begun_s
                if number >= first and 2 * computed - earlier > again_s:
                    break
                turn = order[:number].count(kind)
                started = time.monotonic()
                if kernel is not None and settings is not None:
                    budget = None if settings.budget_s is None else settings.budget_s / 4
                    kernel.settings = replace(settings, budget_s=budget, seed=settings.seed + number + 1)
                for position, (name, tensor) in enumerate(inputs.items()):
                    values = draws.values(kind, flat[name], position, name, turn)
                    if values is not None:
                        flat_memory(tensor).copy_(values)
                wrong = self._judge_kind(kind, turn, call, names, function, args, kwargs)
                least = time.monotonic() - started
                spent += least
                if wrong is None or self._partly:
                    more = draws.narrower(kind, order[: number + 1])
                    order[number + 1 : number + 1] = more
                    first += len(more)
                if wrong is None:
                    continue
                kinds += () if kind in kinds else (kind,)
                judged = wrong if isinstance(wrong, KernelReplay) else judged
                if judged.verdict == "mismatch":
                    break
            source = code or call.kernel
            if judged.verdict != "mismatch" and source not in self._solved_for:
                self._solved_for.add(source)
                judged = self._solved(judged, kinds, flat, inputs, (call, names, function, args, kwargs))
        finally:
            if kernel is not None and settings is not None:
                kernel.settings = settings
            # Where the device's context is lost nothing can be copied, and nothing runs here any more.
            if not isinstance(sys.exc_info()[1], Failure):
                for memory, value in zip(memories, before, strict=True):
                    memory.copy_(value)
        self._reporter.send(protocol.KernelChecked(replace(judged, kinds=tuple(kinds))))

    def _following(self, call: PlannedCall, inputs: Mapping[str, Tensor]) -> list[tuple[Leaf, Tensor]]:
        """Inputs that other launches make of the other inputs alone, a part of a mean say, and that are no
        nodes of the graph: with the loops that make them."""
        facts, known = self._tensors.facts, set(self._context.plan.inputs)
        makers = {
            leaf.buffers[0]: leaf
            for leaf in facts.leaves
            if leaf.body is not None and len(leaf.buffers) == 1 and leaf.entry not in call.entries
        }
        return [
            (makers[name], tensor)
            for name, tensor in inputs.items()
            if name in makers
            and name not in known
            and name not in facts.meanings
            and set(makers[name].reads) <= inputs.keys() - {name}
        ]

    def _solved(
        self,
        judged: KernelReplay,
        kinds: list[ValueKind],
        flat: Mapping[str, Tensor],
        inputs: Mapping[str, Tensor],
        made: tuple[PlannedCall, Mapping[str, object], Function, Sequence[object], dict[str, object]],
    ) -> KernelReplay:
        """The launch on values that are solved for: `judged` or the mismatch that they show."""
        draws, (call, names, function, args, kwargs) = self._draws, made
        kernel = self._code.interpreted(function)
        begun_s, wall = time.process_time(), time.monotonic()
        assert draws is not None
        counts = {name: memory.numel() for name, memory in flat.items()}
        for number, solve in enumerate(draws.to_solve(flat)):
            most_s = _SOLVE_S * (1 if solve.time else _SOLVED_ONCE)
            if number and (time.process_time() - begun_s > most_s or time.monotonic() - wall > _SOLVE_WALL_S):
                break
            copies = _COPIES if kernel is None else _COPIES_INTERPRETED
            drawn: Tensor | None = None
            if solve.way in ("numbers", "special"):
                if kernel is not None:
                    continue
                around, drawn = draws.drawn(
                    solve, flat, max(1, min(copies, _MOST_MEMORY // counts[solve.name]))
                )
            else:
                around = {
                    name: draws.unsolved(solve, memory, position, name)
                    for position, (name, memory) in enumerate(flat.items())
                }
            for name, tensor in inputs.items():
                values = around[name]
                flat_memory(tensor).copy_(flat[name] if values is None else values)
            launch = self._tensors.prepare(call, names)
            launch.drawn = True
            if not any(leaf.body for leaf in launch.leaves):
                break
            memories = [flat_memory(tensor) for tensor in inputs.values()]
            before = [(memory, memory.clone()) for memory in memories]
            solved = flat_memory(inputs[solve.name])
            base = solved.clone()
            seed = self._context.request.options.seed * 1_009 + number
            generator = torch.Generator().manual_seed(seed)
            run = partial(launch.run_watched, solve.name)
            reach = partial(draws.reach, solve)
            targets = draws.targets(base.dtype, generator)
            most = draws.most(base.dtype)
            solver = Solver(solve.name, run, targets, generator, reach, most, copies)
            try:
                if drawn is not None:
                    solution: Tensor | None = drawn
                    solver.drawn(drawn)
                else:
                    free = draws.free(solve, len(base), generator).to(base.device)
                    solution = solver.solve(base, free, pinned=solve.way == "pinned")
            except EXPECTED_ERRORS:
                continue
            if solution is None:
                continue
            chosen: list[tuple[int, Collection[str] | None]] = [(each, None) for each in range(len(solution))]
            if kernel is None:
                outputs = {
                    root: flat_memory(tensor)
                    for name in call.outputs
                    if isinstance(tensor := names.get(name), Tensor)
                    and launch.memory_of(name) == (root := launch.facts.layouts.root(name))
                }
                results = {launch.facts.layouts.root(name): each for name, each in solver.results.items()}
                run_again = partial(self._launched, function, args, kwargs)
                chosen = glanced(run_again, solved, solution, before, outputs, results)
                if len(chosen) > _JUDGED + _NEAREST:
                    chosen = [*chosen[:_JUDGED], *chosen[-_NEAREST:]]
                # One that is right is judged as well, which says whether these values can be.
                chosen += [] if any(not position for position, _ in chosen) else [(0, None)]
            for place, (position, differ) in enumerate(chosen):
                if place and time.process_time() - begun_s > most_s:
                    break
                for memory, value in before:
                    memory.copy_(value)
                solved.copy_(solution[position])
                kind: ValueKind = solve.way if solve.way in ("numbers", "special") else "solved"
                wrong = self._judge_kind(kind, number, *made, only=differ)
                if wrong is not None:
                    kinds += () if kind in kinds else (kind,)
                if isinstance(wrong, KernelReplay):
                    return wrong
        return judged

    def _launched(self, function: Function, args: Sequence[object], kwargs: dict[str, object]) -> bool:
        """Whether a launch went well."""
        try:
            function(*args, **kwargs)
            synchronise(self._context.device)
        except Exception:
            return False
        return True

    def _judge_kind(
        self,
        kind: ValueKind,
        turn: int,
        call: PlannedCall,
        names: Mapping[str, object],
        function: Function,
        args: Sequence[object],
        kwargs: dict[str, object],
        only: Collection[str] | None = None,
    ) -> KernelReplay | bool | None:
        """The mismatch that these values show; True where they show none, None where nothing can be said.
        `only`: memories by root name that alone are judged, None for all."""
        launch = self._tensors.prepare(call, names)
        if self._follow:
            # What follows from other inputs alone, and is no node of the graph, can't be of its own.
            loops = Loops(launch, wide=False)
            for leaf, tensor in self._follow:
                loops.run(leaf)
                flat_memory(tensor).copy_(loops.memory(leaf.buffers[0], False))
            launch = self._tensors.prepare(call, names)
        if call.kind == "user":
            launch.own_kernel = own_kernel((args, kwargs), {name: names.get(name) for name in call.outputs})
        scratch = self._tensors.scratch(launch)
        pairs: list[tuple[str, object, Expected]] = []
        self._partly = False
        for name in call.outputs:
            tensor = names.get(name)
            if only is not None and launch.facts.layouts.root(name) not in only:
                continue
            if isinstance(tensor, Tensor) and name not in scratch:
                compiled = self._tensors.in_layout(name, tensor)
                texts = [
                    item.body
                    for item in self._context.plan.leaves
                    if item.body and item.name in {leaf.name for leaf in launch.needed(name)}
                ]
                if self._draws is not None and self._draws.undecided(kind, texts, tensor.dtype, turn):
                    continue
                try:
                    pairs.append((name, compiled, launch.agreed(name, compiled.shape)))
                except EXPECTED_ERRORS:
                    # One output may have no answer for these values (an overflowing cast), the others one.
                    self._partly = True
        sure = [
            float(expected.certain.double().mean())
            for _, _, expected in pairs
            if expected.certain is not None
        ]
        if not sure or max(sure) < _LEAST_CERTAIN:
            return None
        draft = self._programs.draft(launch, names)
        self._reporter.send(protocol.KernelStarted(call.index, call.kernel))
        try:
            function(*args, **kwargs)
            synchronise(self._context.device)
        except Exception as error:
            # An index that eager refuses as well is no fault of the kernel.
            runs = not self._partly and all(expected.in_graph for _, _, expected in pairs)
            wrong = None
            if runs and is_fault(error):
                reason = f"{KIND_WORDS[kind]}: {describe(error)}"
                wrong = self._judge.result(call, "mismatch", reason, kinds=("given", kind))
                self._judge.report(wrong)
            self._context.give_up(call, error)
            return wrong
        finally:
            self._reporter.send(protocol.KernelRan())
        kernel = self._code.interpreted(function)
        if kernel is not None:
            fill_unwritten(kernel, pairs)
        checks, results, worst = self._judge.compare(call, pairs, scratch)
        verdict, reason = overall(checks, results)
        if verdict != "mismatch":
            return True
        judged = self._judge.result(call, verdict, f"{KIND_WORDS[kind]}: {reason}", checks, worst)
        self._programs.write(draft, judged)
        return judged


def _width(tensor: Tensor) -> int:
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return next((int(extent) for extent, step in steps if step == 1 and extent > 1), 0)


def _constants(text: str) -> list[str]:
    """Of a program's own kernel, which has no loop body, the constants as one would have them. Nothing where
    a value may become an address or decide how long it runs."""
    if not text or "while " in text or re.search(r"\.to\(tl\.u?int|tl\.cast", text):
        return []
    numbers = re.findall(r"(?<![\w.])\d+\.\d*(?:e[-+]?\d+)?", text.partition("\ndef ")[2])
    return ["\n".join(["ops.load"] + [f"ops.constant({number}, torch.float32)" for number in numbers])]
