"""Reading ir_pre_fusion.txt and ir_post_fusion.txt without losing a line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from sharing import unpacked

from inspector.model.schedule import Buffer, Dependency, Layout, Schedule, SchedulerNode
from inspector.readers.schedule import parse_schedule

EXTRA = Path(__file__).parent / "data" / "extra" / "schedules-torch2.13.tar.xz"

# NodeUser(node=SchedulerNode(name='op3'), ...)   the model keeps the name only
USER_NODE = re.compile(r"node=\w+\((?:name='([^']*)'|nodes=(\w+))\)")

GROUP = """\
op0: ExternKernelSchedulerNode(ExternKernelOut)
op0.writes = [StarDep(name='buf0', mode=None)]
op0.unmet_dependencies = []
op0.met_dependencies = [StarDep(name='arg0_1', mode=None)]
op0.outputs = [
    buf0: ExternKernelOut
    buf0.layout = FixedLayout('cpu', torch.float32, size=[8], stride=[1])
    buf0.users = [NodeUser(node=FusedSchedulerNode(nodes=op1_op2), can_inplace=False, is_weak=False)]
]
op0.node.kernel = extern_kernels.mm


op1_op2_op3: ForeachKernelSchedulerNode(FusedSchedulerNode,SchedulerNode)
op1_op2_op3.writes = []
op1_op2_op3.unmet_dependencies = []
op1_op2_op3.met_dependencies = []
op1_op2_op3.outputs = [
]
op1_op2_op3.snodes[0] =
op1_op2: FusedSchedulerNode(SchedulerNode,SchedulerNode)
op1_op2.writes = []
op1_op2.unmet_dependencies = []
op1_op2.met_dependencies = []
op1_op2.outputs = [
]
op1_op2.snodes[0] =
op1: SchedulerNode(ComputedBuffer)
op1.writes = []
op1.unmet_dependencies = []
op1.met_dependencies = []
op1.outputs = [
]
op1.group.device = cuda:0
op1_op2.snodes[1] =
op2: SchedulerNode(ComputedBuffer)
op2.writes = []
op2.unmet_dependencies = []
op2.met_dependencies = []
op2.outputs = [
]
op2.group.device = cuda:0
op1_op2_op3.snodes[1] =
op3: SchedulerNode(ComputedBuffer)
op3.writes = []
op3.unmet_dependencies = []
op3.met_dependencies = []
op3.outputs = [
]
op3.group.device = cuda:0


op4: NopKernelSchedulerNode(ConcatKernel)
op4.writes = []
op4.unmet_dependencies = []
op4.met_dependencies = []
op4.outputs = [
]


"""
"""As scheduler.py of torch 2.13 prints a foreach group that holds a fused group."""


GROUP_OF_2_4 = """\
a_b_c: ForeachKernelSchedulerNode(FusedSchedulerNode,SchedulerNode)
a_b_c.writes = []
a_b_c.users = []
    a_b_c.snodes[0] =
    a_b: FusedSchedulerNode(SchedulerNode,SchedulerNode)
    a_b.writes = \n\
        [   MemoryDep('a', c0, {c0: 8}, None),
            MemoryDep('b', c0, {c0: 8}, None)]
    a_b.users = []
        a_b.snodes[0] =
        a: SchedulerNode(ComputedBuffer)
        a.writes = []
        a.users = []
        class a_loop_body:
            var_ranges = {z0: 8}
            def body(self, ops):
                return store
        a_b.snodes[1] =
        b: SchedulerNode(ComputedBuffer)
        b.writes = []
        b.users = []
    a_b_c.snodes[1] =
    c: SchedulerNode(ComputedBuffer)
    c.writes = []
    c.users = []


"""
"""As scheduler.py of torch 2.4 prints the like: indented, and with nodes named by their buffers."""


def read(path: Path) -> Schedule:
    stage: Literal["pre", "post"] = "pre" if "pre" in path.name else "post"
    return parse_schedule(path.read_text(), path.name, stage)


@pytest.fixture(scope="session")
def ir_files(corpus_graphs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every IR file of the corpus, and of a collection of small programs with torch 2.13."""
    extra = unpacked(EXTRA, tmp_path_factory.mktemp("schedules"))
    return sorted(path for folder in [*corpus_graphs, *extra.iterdir()] for path in folder.glob("ir_*.txt"))


def everything(nodes: tuple[SchedulerNode, ...]) -> Iterator[SchedulerNode]:
    """Entries, groups and members."""
    for node in nodes:
        yield node
        yield from everything(node.members)


# -- an independent way back: from the objects to what torch printed


def dependency_text(dep: Dependency) -> str:
    if dep.kind == "memory":
        ranges = ", ".join(f"{name}: {extent}" for name, extent in dep.ranges)
        return f"MemoryDep('{dep.buffer}', {dep.index}, {{{ranges}}}{f', {dep.mode}' if dep.mode else ''})"
    if dep.kind == "star":
        return f"StarDep(name='{dep.buffer}', mode={dep.mode!r})"
    assert dep.kind == "weak" and dep.text.startswith(f"WeakDep(name='{dep.buffer}'"), dep
    return dep.text


def layout_text(layout: Layout) -> str:
    if layout.dtype is None:
        assert layout.text.startswith(f"{layout.kind}(device=")
        return layout.text
    assert layout.size is not None and layout.stride is not None
    size, stride = (", ".join(map(str, sizes)) for sizes in (layout.size, layout.stride))
    offset = f", offset={layout.offset}" if layout.offset != 0 else ""
    return f"{layout.kind}('{layout.device}', torch.{layout.dtype}, size=[{size}], stride=[{stride}]{offset})"


def users_text(buffer: Buffer) -> str:
    return ",".join(
        f"NodeUser(node={user.node}, can_inplace={user.can_inplace}, is_weak={user.is_weak})"
        for user in buffer.users
    )


def buffer_text(buffer: Buffer) -> str:
    text = f"{buffer.name}: {buffer.kind}"
    if buffer.layout is not None:
        text += f"{buffer.name}.layout = {layout_text(buffer.layout)}"
    for key, names in (("aliases", buffer.aliases), ("mutations", buffer.mutations)):
        if names:
            text += f"{buffer.name}.{key} = {list(names)}"
    assert not buffer.extras
    return text + f"{buffer.name}.users = [{users_text(buffer)}]"


def expected_statements(node: SchedulerNode) -> Iterator[str]:
    name = node.name
    yield f"{name}: {node.cls}({','.join(node.inner)})"
    for key, deps in (
        ("writes", node.writes),
        ("unmet_dependencies", node.unmet),
        ("met_dependencies", node.met),
    ):
        yield f"{name}.{key} = [{','.join(map(dependency_text, deps))}]"
    if name.startswith("buf"):
        assert node.members or [buffer.name for buffer in node.outputs] == [name]
        yield f"{name}.users = [{'' if node.members else users_text(node.outputs[0])}]"
    else:
        yield f"{name}.outputs = [{''.join(map(buffer_text, node.outputs))}]"
    for key, value in (("group.device", node.device), ("group.iteration", node.iteration), *node.extras):
        if value is not None:
            yield f"{name}.{key} = {value}"
    if node.sizes is not None:
        yield f"{name}.sizes = ([{','.join(map(str, node.sizes[0]))}], [{','.join(map(str, node.sizes[1]))}])"
    for buffer, layout in node.layouts:
        yield f"{buffer}_layout = {layout_text(layout)}"
    if node.body is not None:
        yield "".join(node.body.lines)
    if node.is_extern:
        yield f"{name}.node.kernel = {node.kernel}"
    for number in range(len(node.members)):
        yield f"{name}.snodes[{number}] ="


def squeezed(statement: str) -> str:
    """Without blanks, and without differences in print between versions that carry no meaning."""
    text = (
        re.sub(r"\s", "", USER_NODE.sub(r"node=\1\2", statement)).replace("},None)", "})").replace(",]", "]")
    )
    if ".sizes=" in text:
        before, _, sizes = text.partition("=")
        body = sizes[1:-1].replace(",)", ")")
        if body.startswith("("):
            body = "".join(
                "[" if c == "(" and d == 0 else "]" if c == ")" and d == 1 else c for c, d in depths(body)
            )
        return f"{before}=({body})"
    return text


def depths(text: str) -> Iterator[tuple[str, int]]:
    depth = 0
    for character in text:
        yield character, depth
        depth += (character in "([") - (character in ")]")


def printed_statements(lines: list[str], node: SchedulerNode) -> Iterator[str]:
    """The file's own statements for `node`: the lines of its span that are in no member's span."""
    members = [member.span for member in node.members]
    own = [n for n in range(node.span.first, node.span.last + 1) if not any(n in span for span in members)]
    indent = len(lines[node.span.first - 1]) - len(lines[node.span.first - 1].lstrip())
    statement = ""
    for number in own:
        line = lines[number - 1]
        line = line[4:] if ".snodes[" in line and line.startswith(" " * (indent + 4)) else line
        if line[indent : indent + 1] not in (" ", "]") and statement:
            yield statement
            statement = ""
        statement += line
    yield statement


def test_every_line_is_found_again_in_the_objects(ir_files: list[Path]) -> None:
    assert len(ir_files) > 100
    for path in ir_files:
        schedule = read(path)
        lines = schedule.text.split("\n")
        assert schedule.unparsed == () and schedule.problems == (), path
        covered = {n for node in schedule.nodes for n in range(node.span.first, node.span.last + 1)}
        assert {n for n, line in enumerate(lines, 1) if line.strip()} <= covered, path
        for node in everything(schedule.nodes):
            printed = Counter(map(squeezed, printed_statements(lines, node)))
            expected = Counter(map(squeezed, expected_statements(node)))
            assert printed == expected, (path, node.name, printed - expected, expected - printed)


def test_loop_bodies_are_taken_apart(ir_files: list[Path]) -> None:
    for path in ir_files:
        for node in read(path).leaves():
            if node.body is None:
                continue
            heads = [line.strip() for line in node.body.lines[1 : node.body.lines.index(_first_def(node))]]
            ranges = ", ".join(f"{name}: {extent}" for name, extent in node.body.ranges)
            assert heads == [
                f"var_ranges = {{{ranges}}}",
                *(f"{name} = {value}" for name, value in node.body.indexing),
            ]
            assert node.body.name == f"{node.name}_loop_body"


def _first_def(node: SchedulerNode) -> str:
    assert node.body is not None
    return next(line for line in node.body.lines if line.strip().startswith("def "))


def test_heads_in_the_file_are_the_nodes(ir_files: list[Path]) -> None:
    """Counted with a pattern of its own: as many nodes as heads, as many entries as blocks."""
    for path in ir_files:
        schedule = read(path)
        heads = re.findall(r"^ *(\S+): \w+\([A-Za-z,]*\)$", schedule.text, re.MULTILINE)
        assert [node.name for node in everything(schedule.nodes)] == heads, path
        assert len(schedule.nodes) == len([b for b in schedule.text.split("\n\n\n") if b]), path
        for node in everything(schedule.nodes):
            assert all(m.span.first in node.span and m.span.last in node.span for m in node.members)
            if node.inner and node.inner[0].endswith("SchedulerNode"):
                assert node.inner == tuple(member.cls for member in node.members), path


def test_known_facts_of_the_softmax_captures(corpus: Path) -> None:
    entries = {}
    cpu = [f"cpu-torch{version}" for version in ("2.4.1", "2.6.0", "2.13", "2.15.0")]
    for version in (*cpu, "h200-torch2.11"):
        (path,) = (corpus / version / "softmax").rglob("ir_post_fusion.txt")
        schedule = read(path)
        entries[version] = [len(list(node.leaves())) for node in schedule.nodes]
        group = schedule.nodes[1]
        leaf = group.members[1] if "2.11" not in version else group.members[0]
        assert group.reads and all(dep.buffer == "buf0" for dep in group.unmet)
        assert schedule.nodes[0].kernel == "extern_kernels.mm" and schedule.nodes[0].is_extern
        assert leaf.outputs[0].layout is not None and leaf.outputs[0].layout.dtype == "float32"
        assert [user.node for user in group.members[-1].outputs[0].users] == ["OUTPUT"]
        assert schedule.find(leaf.name) is leaf
    assert entries == {**{version: [1, 4] for version in cpu}, "h200-torch2.11": [1, 3]}


def test_torch_2_4_names_nodes_by_their_buffer(corpus: Path) -> None:
    (path,) = (corpus / "cpu-torch2.4.1" / "softmax").rglob("ir_post_fusion.txt")
    extern, group = read(path).nodes
    assert extern.outputs[0].name == "buf0" and extern.outputs[0].kind == "ExternKernelOut"
    assert extern.outputs[0].layout is None and len(extern.outputs[0].users) == 2
    assert [buffer.name for buffer in group.outputs] == ["buf1", "buf2", "buf3", "buf4"]
    layout = group.members[0].outputs[0].layout
    assert layout is not None and layout.size == (100, 1) and layout.stride == (1, 100)
    assert group.members[0].writes[0].mode is None and group.members[0].sizes == ((100,), (100,))


def test_distances_and_mutations_are_kept(corpus: Path) -> None:
    (path,) = (corpus / "cpu-torch2.13" / "softmax").rglob("ir_pre_fusion.txt")
    assert ("min_input_distance", "1") in read(path).nodes[1].extras
    (path,) = (corpus / "h200-torch2.11" / "resnet50").rglob("model__1_forward*/ir_pre_fusion.txt")
    mutated = [buffer for node in read(path).leaves() for buffer in node.outputs if buffer.mutations]
    assert len(mutated) == 60 and all(b.layout and b.layout.kind.startswith("Mutation") for b in mutated)


# -- forms that no capture shows


def test_groups_nest_and_users_may_be_groups() -> None:
    schedule = parse_schedule(GROUP, "ir", "post")
    assert schedule.problems == ()
    assert [node.name for node in schedule.nodes] == ["op0", "op1_op2_op3", "op4"]
    assert schedule.nodes[0].outputs[0].users[0].node == "op1_op2"
    group = schedule.nodes[1]
    assert [member.name for member in group.members] == ["op1_op2", "op3"]
    assert [leaf.name for leaf in group.leaves()] == ["op1", "op2", "op3"]
    assert (group.span.first, group.span.last) == (13, 49)
    inner = group.members[0]
    assert (inner.span.first, inner.span.last) == (20, 41)
    assert [(leaf.span.first, leaf.span.last) for leaf in group.leaves()] == [(27, 33), (35, 41), (43, 49)]


def test_nested_groups_of_torch_2_4_are_indented() -> None:
    schedule = parse_schedule(GROUP_OF_2_4, "ir", "post")
    assert schedule.problems == ()
    (group,) = schedule.nodes
    assert [member.name for member in group.members] == ["a_b", "c"]
    assert [dep.buffer for dep in group.members[0].writes] == ["a", "b"]
    assert [leaf.name for leaf in group.leaves()] == ["a", "b", "c"]
    assert [buffer.name for buffer in group.outputs] == ["a", "b", "c"]
    body = next(group.leaves()).body
    assert body is not None and body.ranges == (("z0", 8),) and len(body.lines) == 4


def test_a_group_of_one_has_the_name_of_its_member() -> None:
    inner = "op1_op2.writes = []\nop1_op2.snodes[0] =\nop1: SchedulerNode(ComputedBuffer)\nop1.writes = []\n"
    inner += "op1_op2.snodes[1] =\nop2: SchedulerNode(ComputedBuffer)\nop2.writes = []\n\n\n"
    text = (
        "op1_op2: ForeachKernelSchedulerNode(FusedSchedulerNode)\nop1_op2.writes = []\nop1_op2.snodes[0] =\n"
    )
    text += "op1_op2: FusedSchedulerNode(SchedulerNode,SchedulerNode)\n" + inner
    (group,) = parse_schedule(text, "ir", "post").nodes
    assert group.cls == "ForeachKernelSchedulerNode" and [m.cls for m in group.members] == [
        "FusedSchedulerNode"
    ]
    assert [leaf.name for leaf in group.leaves()] == ["op1", "op2"]


def test_generated_code_with_empty_lines_stays_with_its_node() -> None:
    """debug_triton_code of torch/_inductor/codegen/triton.py appends a kernel's source."""
    code = "    import triton\n\n\n\n    @triton.jit\n    def k(x):\n        pass"
    member = f"op1: SchedulerNode(ComputedBuffer)\nop1.writes = []\nop1 Triton code:\n{code}"
    text = (
        f"op1_op2: FusedSchedulerNode(SchedulerNode)\nop1_op2.writes = []\nop1_op2.snodes[0] =\n{member}\n"
        f"op1_op2 Triton code:\n{code}\n\n\nop3: SchedulerNode(MultiTemplateBuffer)\nop3.writes = []\n"
        "op3 Unfinalized multi template buffer\n\n\n"
    )
    schedule = parse_schedule(text, "ir", "post")
    assert schedule.unparsed == () and schedule.problems == ()
    group, template = schedule.nodes
    assert group.extras == (("Triton code", code),) and group.members[0].extras == (("Triton code", code),)
    assert (group.span.last, group.members[0].span.last) == (21, 13)
    assert template.extras == (("Unfinalized multi template buffer", ""),) and template.span.first == 24


@pytest.mark.parametrize(
    ("text", "kind", "device", "size"),
    [
        ("<torch._inductor.ir.NoneLayout object at 0x7f5c0a>", "NoneLayout", None, None),
        (
            "NoneLayout(device=device(type='cuda', index=1), size=[0], stride=[0])",
            "NoneLayout",
            "cuda:1",
            (0,),
        ),
        ("MultiOutputLayout(device=device(type='cpu'))", "MultiOutputLayout", "cpu", None),
        ("NoneLayout(device=None, size=[0], stride=[0])", "NoneLayout", None, (0,)),
        (
            "FixedLayout('cpu', torch.bool, size=[Max(1, s0)], stride=[1], offset=4*s0, is_pinned=True)",
            "FixedLayout",
            "cpu",
            ("Max(1, s0)",),
        ),
        ("NewLayout(something=(1, 2))", "NewLayout", None, None),
    ],
)
def test_layouts(text: str, kind: str, device: str | None, size: tuple[int | str, ...] | None) -> None:
    ir = f"op0: SchedulerNode(ComputedBuffer)\nop0.writes = []\nbuf0_layout = {text}\n\n\n"
    schedule = parse_schedule(ir, "ir", "pre")
    ((name, layout),) = schedule.nodes[0].layouts
    assert schedule.problems == ()
    assert (name, layout.kind, layout.device, layout.size, layout.text) == ("buf0", kind, device, size, text)
    assert layout.offset == ("4*s0" if "offset" in text else 0)


@pytest.mark.parametrize(
    ("text", "kind", "index", "ranges", "mode"),
    [
        (
            "MemoryDep('b', ModularIndexing(c0, 1, 64) + 8*c1, {c0: 4*s77, c1: Max(1, s0)}, atomic_add)",
            "memory",
            "ModularIndexing(c0, 1, 64) + 8*c1",
            (("c0", "4*s77"), ("c1", "Max(1, s0)")),
            "atomic_add",
        ),
        ("MemoryDep('b', 0, {})", "memory", "0", (), None),
        ("StarDep(name='b', mode='atomic_add')", "star", None, (), "atomic_add"),
        ("WeakDep(name='b', mutating_buf='c')", "weak", None, (), None),
        (
            "WeakDep(name='b',\n            mutating_buf='c',\n            is_fake=False)",
            "weak",
            None,
            (),
            None,
        ),
        ("RemoteDep('b', 3)", "other", None, (), None),
    ],
)
def test_dependencies(
    text: str, kind: str, index: str | None, ranges: tuple[tuple[str, str], ...], mode: str | None
) -> None:
    ir = f"op0: SchedulerNode(ComputedBuffer)\nop0.writes = [{text}, StarDep(name='z', mode=None)]\n\n\n"
    schedule = parse_schedule(ir, "ir", "pre")
    first, second = schedule.nodes[0].writes
    assert (first.kind, first.buffer, first.index, first.ranges, first.mode) == (
        kind,
        "b",
        index,
        ranges,
        mode,
    )
    assert (first.text, second.buffer) == (text, "z") and schedule.problems == ()


# -- damage


def check_nothing_is_lost(schedule: Schedule) -> None:
    covered = {n for node in schedule.nodes for n in range(node.span.first, node.span.last + 1)}
    covered.update(schedule.unparsed)
    lost = {n for n, line in enumerate(schedule.text.split("\n"), 1) if line.strip()} - covered
    assert not lost, (lost, schedule.problems)
    if schedule.unparsed:
        assert all(problem.path == "ir" for problem in schedule.problems)
        assert any(problem.line in schedule.unparsed for problem in schedule.problems)


def small_files(corpus: Path) -> list[str]:
    paths = [
        next((corpus / v / "softmax").rglob("ir_post_fusion.txt"))
        for v in ("cpu-torch2.4.1", "cpu-torch2.13")
    ]
    return [*(path.read_text() for path in paths), GROUP, GROUP_OF_2_4]


def test_cut_anywhere(corpus: Path) -> None:
    for text in small_files(corpus):
        whole = parse_schedule(text, "ir", "post")
        ends = [match.end() for match in re.finditer("\n\n\n", text)]
        for cut in range(len(text)):
            schedule = parse_schedule(text[:cut], "ir", "post")
            complete = sum(end <= cut for end in ends)
            assert schedule.nodes[:complete] == whole.nodes[:complete], cut
            check_nothing_is_lost(schedule)
            assert bool(schedule.problems) == (cut not in ends), cut
            # A list or layout that is cut is reported, not passed off as a short one.
            entry = text[:cut][([0, *ends])[complete] :]
            if "_loop_body" not in entry and entry.count("[") != entry.count("]"):
                assert len(text[:cut].rstrip().split("\n")) in schedule.unparsed, cut
            deps = [dep for n in everything(schedule.nodes) for dep in n.writes + n.met + n.unmet]
            assert all(dep.kind != "other" for dep in deps), cut


def test_cut_in_front(corpus: Path) -> None:
    for text in small_files(corpus):
        whole = parse_schedule(text, "ir", "post")
        ends = [match.end() for match in re.finditer("\n\n\n", text)]
        for cut in range(0, len(text), 7):
            schedule = parse_schedule(text[cut:], "ir", "post")
            intact = sum(1 for start in [0, *ends[:-1]] if start >= cut)
            names = [node.name for node in schedule.nodes[len(schedule.nodes) - intact :]] if intact else []
            assert names == [node.name for node in whole.nodes[len(whole.nodes) - intact :]][: len(names)], (
                cut
            )
            assert len(names) == intact
            check_nothing_is_lost(schedule)


@pytest.mark.parametrize(
    "junk",
    ["%% foreign line %%", "W1121 07:00:00 torch/_x.py:1] [0/0] hello", "]]]", "op9: x", "      indented"],
)
def test_a_foreign_line_anywhere(corpus: Path, junk: str) -> None:
    for text in small_files(corpus):
        lines = text.split("\n")
        whole = parse_schedule(text, "ir", "post")
        for number in range(len(lines) - 3):
            damaged = "\n".join([*lines[:number], junk, *lines[number:]])
            schedule = parse_schedule(damaged, "ir", "post")
            check_nothing_is_lost(schedule)
            if junk[0] != " ":
                assert number + 1 in schedule.unparsed, number
            names = [node.name for node in everything(schedule.nodes)]
            missing = [node.name for node in everything(whole.nodes) if node.name not in names]
            is_head = number > 0 and re.match(r" *\S+: \w+\(", lines[number - 1])
            assert not missing or is_head or "snodes" in lines[number - 1], (number, missing)
            before = [node for node in whole.nodes if node.span.last < number]
            if junk[0] != " ":
                assert list(schedule.nodes[: len(before)]) == before, number


def test_a_lost_member_line_loses_no_node(corpus: Path) -> None:
    for text in small_files(corpus):
        whole = parse_schedule(text, "ir", "post")
        lines = text.split("\n")
        for number in [n for n, line in enumerate(lines) if ".snodes[" in line]:
            without = "\n".join(lines[:number] + lines[number + 1 :])
            schedule = parse_schedule(without, "ir", "post")
            found = {node.name for node in everything(schedule.nodes)}
            lost = {node.name for node in everything(whole.nodes)} - found
            # Where members are indented, the first one cannot be told from what stands before it.
            assert not lost or (lines[number].startswith(" ") and ".snodes[0]" in lines[number])
            assert not lost or number + 1 in schedule.unparsed
            garbled = "\n".join([*lines[:number], lines[number].replace(" =", "%"), *lines[number + 1 :]])
            schedule = parse_schedule(garbled, "ir", "post")
            assert number + 1 in schedule.unparsed and schedule.problems[0].line == number + 1


def test_lines_are_counted_from_the_start_of_the_file() -> None:
    schedule = parse_schedule("\n\n\nforeign\n\n\n" + GROUP, "ir", "post")
    assert schedule.unparsed == (4,) and schedule.nodes[0].span.first == 7
    schedule = parse_schedule("\n\n\n\n\nforeign\nmore\n\n\n\n\n\n" + GROUP, "ir", "post")
    assert schedule.unparsed == (6, 7) and schedule.nodes[0].span.first == 13


def test_one_garbled_value_is_reported_and_the_rest_of_the_node_kept() -> None:
    layout = "FixedLayout('cpu', torch.float32, size=[8], stride=[1])"
    schedule = parse_schedule(GROUP.replace(layout, "FixedLayout('cpu', tor"), "ir", "post")
    assert schedule.nodes[0].outputs[0].layout is None and schedule.nodes[0].kernel == "extern_kernels.mm"
    assert schedule.unparsed == (5, 6, 7, 8, 9) and "outputs" in schedule.problems[0].message
    assert any("FixedLayout('cpu', tor" in text for _, text in schedule.nodes[0].extras)
    schedule = parse_schedule(
        GROUP.replace("extern_kernels.mm", "extern_kernels.mm\n   foreign"), "ir", "post"
    )
    assert schedule.nodes[0].kernel == "extern_kernels.mm" and schedule.unparsed == (10, 11)


def test_lost_empty_lines_and_windows_line_ends(corpus: Path) -> None:
    for text in small_files(corpus):
        whole = parse_schedule(text, "ir", "post")
        joined = parse_schedule(re.sub("\n\n+", "\n", text), "ir", "post")
        assert [node.name for node in joined.nodes] == [node.name for node in whole.nodes]
        assert [len(node.members) for node in joined.nodes] == [len(node.members) for node in whole.nodes]
        assert parse_schedule(text.replace("\n", "\r\n"), "ir", "post") == whole


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n" * 5000,
        "garbage",
        "\x00\x01\x02" * 100,
        "op1: SchedulerNode(ComputedBuffer)\n" * 3000,
        "".join(f"n{i}: F(X)\nn{i}.writes = []\nn{i}.snodes[0] =\n" for i in range(1000)),
        "op1.writes = [MemoryDep('a', " + "((" * 5000,
        "op1: F(X)\nop1.outputs = [\n    buf1: B\n    buf1.layout = FixedLayout('cpu', torch.f\n"
        + " " * 9000,
    ],
    ids=["empty", "blank", "word", "binary", "heads", "deep", "brackets", "layout"],
)
def test_garbage_never_raises(text: str) -> None:
    schedule = parse_schedule(text, "ir", "pre")
    assert schedule.problems and schedule.text == text
    check_nothing_is_lost(schedule)


class Counted(str):
    """A text that adds up how many characters of it are copied or counted."""

    touched = 0

    def __getitem__(self, key: Any) -> Counted:
        piece = Counted(str.__getitem__(self, key))
        Counted.touched += len(piece)
        return piece

    def count(self, what: Any, start: Any = 0, end: Any = None) -> int:
        Counted.touched += len(range(len(self))[start:end])
        return str.count(self, what, start, end)

    def find(self, what: Any, start: Any = 0, end: Any = None) -> int:
        Counted.touched += len(range(len(self))[start:end])
        return str.find(self, what, start, end)

    def split(self, *how: Any) -> list[Any]:
        return list(map(Counted, str.split(self, *how)))


def test_entries_that_damage_has_joined_are_read_once() -> None:
    def touched(count: int) -> int:
        entries = (
            f"op{number}: SchedulerNode(ComputedBuffer)\nop{number}.writes = []\n" for number in range(count)
        )
        Counted.touched = 0
        assert len(parse_schedule(Counted("".join(entries)), "x", "pre").nodes) == count
        return Counted.touched

    assert touched(400) < 3 * touched(200)
