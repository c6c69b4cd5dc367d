"""Two or three ways to call each command, which its ``--help`` ends with."""

from __future__ import annotations

import click

EXAMPLES: dict[str, tuple[str, ...]] = {
    "open": ("inspector open run", "inspector open runs.tar.xz/softmax"),
    "capture": (
        "inspector capture --baseline -o run -- python train.py --epochs 1",
        "inspector capture -o run1 -- torchrun --nproc-per-node 2 train.py",
        "inspector capture --mode max-autotune -o run2 -- python train.py",
    ),
    "summary": ("inspector summary run", "inspector summary compiled.json.gz"),
    "trace": ("inspector trace run", "inspector trace run --compile-id 0/1 --show aot_joint_graph"),
    "fusions": ("inspector fusions run", "inspector fusions run --graph model__0 --svg fused.svg"),
    "ir-diff": ("inspector ir-diff run", "inspector ir-diff run --graph model__0"),
    "replay": ("inspector replay run", "inspector replay run --kernel cpp_fused_sum_2 --source edited.cpp"),
    "repro": ("inspector repro run -o repro.py", "inspector repro run --kernel cpp_fused_sum_2"),
    "explain": ("inspector explain run", "inspector explain run --try first"),
    "lower": ("inspector lower run", "inspector lower run --kernel triton_poi_fused_add_0 --stage ttgir"),
    "diff": (
        "inspector diff before after",
        "inspector diff run",
        "inspector diff before after --markdown",
    ),
    "blame": (
        "inspector blame before after --metric kernels",
        "inspector blame run --metric exit --over passes --over fusions",
    ),
    "export": (
        "inspector export run -o report.html",
        "inspector export after --against before -o compared.html",
    ),
    "report": ("inspector report run", "inspector report run -o issue.md"),
    "check": (
        "inspector check run --budget budget.toml --write",
        "inspector check run --budget budget.toml --format github",
    ),
    "pack": ("inspector pack run -o run.tar.gz", "inspector pack run -o run.tar.xz --no-source"),
    "web": ("inspector web run", "inspector web run --port 8000"),
    "mcp": ("inspector mcp", "inspector mcp runs --allow-run"),
    "index": (
        "inspector index nightly -o fleet",
        "inspector index s3://bucket/runs --dask tcp://scheduler:8786",
    ),
    "query": (
        "inspector query got-slower -i fleet",
        "inspector query 'select torch, count(*) from runs group by all' -i fleet",
    ),
    "doctor": ("inspector doctor", "inspector doctor --python other/bin/python"),
}


def add_examples(group: click.Group) -> None:
    """Puts each command's examples under its options."""
    for name, lines in EXAMPLES.items():
        group.commands[name].epilog = "\n".join(("\b", "Examples:", *(f"  {line}" for line in lines)))
