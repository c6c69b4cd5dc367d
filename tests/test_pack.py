"""`inspector pack`: what is private goes, what the run says stays."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from private_names import HOST, NOTES, PRIVATE, PROJECT, USER, leaks, payloads, plant, whole
from sharing import unpacked

from inspector.cli import cli
from inspector.contract import explain as explain_contract
from inspector.contract import fusions as fusions_contract
from inspector.contract import summary as summary_contract
from inspector.explain import explain
from inspector.gather import fusion_of, summary_of
from inspector.hardware.host import this_host
from inspector.model.problem import InspectorError
from inspector.pack.private import _FORMS, Private
from inspector.pack.run import Packer
from inspector.readers.run import Run
from inspector.replay.store import load_results

SAMPLES = Path(__file__).parents[1] / "sample_runs"
RUNS = ("stories/training_step", "cpu-torch2.13/breaks", "h200-torch2.11/autotune")
"""Two graphs with a replay and a baseline; breaks; choices of kernels. benchmarks/pack.py has all others."""


@pytest.fixture
def place(corpus: Path, tmp_path: Path) -> Any:
    """A copy of a run, by its name above."""

    def copied(name: str) -> Path:
        target = tmp_path / "copied" / Path(name).name
        if name.startswith("stories"):
            unpacked(SAMPLES / name / "run.tar.xz", tmp_path / "copied")
        else:
            shutil.copytree(corpus / name, target)
        return target

    return copied


def said(run: Run) -> str:
    """What the three commands say of a run, as JSON."""
    results = load_results(run.root)
    return json.dumps(
        [
            summary_contract.to_json(summary_of(run)),
            fusions_contract.to_json([fusion_of(graph) for graph in run.graphs if graph.files], True),
            explain_contract.to_json(explain(run, results, this_host())),
        ],
        default=str,
    )


@pytest.mark.parametrize("name", RUNS)
def test_nothing_private_is_left_and_it_says_the_same(name: str, place: Any, tmp_path: Path) -> None:
    run = place(name)
    assert len(plant(run)) > 5
    packer = Packer(Run.open(run))
    packed = packer.write(tmp_path / "run.tar.gz")
    assert leaks(packed.target) == []
    assert packed.replaced["user"] and packed.replaced["secret"] and packed.replaced["folder"]
    root = unpacked(packed.target, tmp_path / "out") / "run"
    before, after = said(Run.open(run)).replace(str(run), "RUN"), said(Run.open(root))
    assert name.startswith("h200") or (USER in before and PROJECT in before)
    assert json.loads(after.replace(str(root), "RUN")) == json.loads(packer.private.clean(before))


def test_digests_of_a_trace_are_those_of_its_new_payloads(place: Any, tmp_path: Path) -> None:
    run = place("cpu-torch2.13/breaks")
    plant(run)
    (trace,) = run.glob("trace/*.log")
    lines = trace.read_text()
    # One that was cut before stays so: its digest is not made to fit.
    broken = next(digest for digest, payload in payloads(lines) if "workload.py" in payload)
    trace.write_text(lines.replace(broken, "0" * 32))
    before = whole(trace.read_text())
    packed = Packer(Run.open(run)).write(tmp_path / "run.tar.xz")
    text = next(unpacked(packed.target, tmp_path / "out").glob("run/trace/*.log")).read_text()
    assert before.count(False) == lines.count(broken) > 0 and len(before) > 100
    assert whole(text) == before
    assert payloads(text) != payloads(lines)


def test_without_the_source_no_line_of_it_is_left(place: Any, tmp_path: Path) -> None:
    run = place("cpu-torch2.13/breaks")
    lines = [line.strip() for line in (run / "workload.py").read_text().split("\n")]
    long = [line for line in lines if len(line) > 14 and not line.startswith(("import", "class", "def"))]
    packed = Packer(Run.open(run), source=False).write(tmp_path / "run.tar.gz")
    text = "".join(
        path.read_text() for path in unpacked(packed.target, tmp_path / "out").rglob("*") if path.is_file()
    )
    assert len(long) > 4 and packed.lines
    assert [line for line in long if line in text or json.dumps(line)[1:-1] in text] == []
    opened = Run.open(tmp_path / "out" / "run")
    assert not any(problem for problem in opened.problems if "JSON" in problem.message)
    assert len(opened.graphs) == len(Run.open(run).graphs) > 5


def test_binaries_and_caches_stay_and_inputs_go_on_request(place: Any, tmp_path: Path) -> None:
    run = place("cpu-torch2.13/softmax")
    for name, data in {
        "cache/inductor/ab/cab.so": b"\x7fELF\0", "cache/inductor/ab/cab.py": b"x = 1\n",
        "cache/triton/KEY/k.ttir": b"module {}\n", "inputs/run_1/model__0.pt": b"PK\3\4\xff",
        "odd.bin": b"\xff\0", "inputs/run_1/model__1.pt": f"PK\3\4 {HOST}".encode(),
    }.items():  # fmt: skip
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_bytes(data)
    (run / "stderr.txt").write_text(f"HOSTNAME={HOST}\n")

    def members(**options: bool) -> set[str]:
        with tarfile.open(Packer(Run.open(run), **options).write(tmp_path / "run.tar.gz").target) as tar:
            return {name.removeprefix("run/") for name in tar.getnames() if "torch_compile_debug" not in name}

    usual = members()
    assert "cache/triton/KEY/k.ttir" in usual and not {
        name for name in usual if name.endswith((".so", ".pt", ".bin"))
    }
    assert "cache/inductor/ab/cab.py" not in usual
    assert members(inputs=True) - usual == {"inputs/run_1/model__0.pt"}, (
        "one with a private name in it stays behind"
    )


def test_the_command_says_what_went_and_what_stays(place: Any, tmp_path: Path) -> None:
    run = place("cpu-torch2.13/breaks")
    plant(run)
    target = tmp_path / "shared.tar.gz"
    done = CliRunner().invoke(cli, ["pack", str(run), "-o", str(target)])
    text = " ".join(done.stdout.split())
    assert (
        done.exit_code == 0 and re.search(r"replaced: .*\d+x", text) and "stays, and may be private" in text
    )
    assert not any(name in text for name in (USER, HOST))
    again = CliRunner().invoke(cli, ["pack", str(run), "-o", str(target)])
    assert isinstance(again.exception, InspectorError) and "--force" in str(again.exception)
    wrong = CliRunner().invoke(cli, ["pack", str(run), "-o", str(tmp_path / "run.zip")])
    assert "tar.gz" in str(wrong.exception)
    # The same run makes the same archive, and a packed one is packed as it is.
    Packer(Run.open(run)).write(tmp_path / "again.tar.gz")
    assert target.read_bytes() == (tmp_path / "again.tar.gz").read_bytes()
    Packer(Run.open(target)).write(tmp_path / "twice.tar.gz")
    assert (tmp_path / "twice.tar.gz").read_bytes() == target.read_bytes()


def cleaned(*texts: str) -> list[str]:
    private = Private()
    for text in texts:
        private.learn(text)
        private.learn_code(text)
    return [private.clean(text) for text in texts]


def test_a_name_that_is_a_word_of_the_code_stays_there() -> None:
    log, code = cleaned('File "/home/max/net/a.py", line 3', "tmp = tl.max(x, 1)\nself.max = 1\n")
    assert log == 'File "/home/user/dir1/a.py", line 3' and code == "tmp = tl.max(x, 1)\nself.max = 1\n"


def test_what_is_too_long_for_a_name_is_replaced_in_its_path_alone() -> None:
    longest, longer = "a" * 255, "b" * 256
    texts = cleaned(f'"/home/{longest}/a.py" and "/home/{longer}/a.py"', f"by {longest} and {longer}")
    assert "aaa" not in "".join(texts) and "bbb" not in texts[0] and texts[1].endswith(longer)


@pytest.mark.parametrize(
    "text",
    (
        "x = a @ self.weight / b",
        "triton_poi_fused_0 = async_compile.triton('triton_', '''",
        "# docs: https://pytorch.org/docs/main/a.html, https://github.com/pytorch/pytorch/issues/1",
        'File "/home/user/venv/lib/python3.11/site-packages/timm/models/resnet.py", line 4',
        "/usr/lib/gcc/x86_64-linux-gnu/13/include/omp.h /usr/local/cuda/bin/ptxas",
        "version 12.8.4.1 of cublas, 127.0.0.1:29500",
        "s0 // 2 /3 and (a)/(b)/c, and/or",
        "/home/user/runs/RUN/torch_compile_debug/run_2026_11_21-pid_1/torchinductor/model__0_inference_0.0",
        "key: str = cache_key, DISPATCH: CUDA, monkey=1",
        "@torch.compile(mode='max-autotune')",
    ),
)
def test_what_is_nobodys_stays(text: str) -> None:
    assert cleaned(text) == [text]


def test_the_same_name_is_the_same_everywhere() -> None:
    texts = cleaned(
        '{"filename": "/srv/acme/nets/a.py"}', "guard  # x = 1  # acme/nets/a.py:3 in f",
        r'"\"/srv/acme/other/b.py\""', '"/Users/Ann Lee/my nets/c.py"', "by Ann Lee", "ssh mika@tower9: and http://tower9/x",
        *NOTES,
    )  # fmt: skip
    assert texts[:3] == [
        '{"filename": "/srv/dir1/dir2/a.py"}', "guard  # x = 1  # dir1/dir2/a.py:3 in f",
        r'"\"/srv/dir1/dir3/b.py\""',
    ]  # fmt: skip
    user = texts[4].removeprefix("by ")
    assert re.fullmatch(rf'"/Users/{user}/dir\d+/c.py"', texts[3]) and re.fullmatch(r"user\d*", user)
    assert not any(name in text for text in texts for name in (*PRIVATE, "Ann", "Lee"))


@pytest.mark.parametrize(
    "token",
    [
        "github_pat_" + "a1" * 12,
        "ghp_" + "a1" * 12,
        "hf_" + "a1" * 12,
        "glpat-" + "a1" * 12,
        "sk-" + "a1" * 12,
        "xoxb-" + "a1" * 8,
        "AKIA" + "A1" * 8,
        "AIza" + "a1" * 20,
        "eyJ" + "a1" * 8 + "." + "b2" * 8 + "." + "c3" * 8,
        "Bearer " + "a1" * 8,
    ],
)
def test_a_token_that_stands_alone_is_replaced(token: str) -> None:
    private = Private()
    text = f"pulled with {token} at last"
    private.learn(text)
    assert token not in private.clean(text)


@pytest.mark.parametrize(
    "line",
    [
        "in /home/ann/models/a.py", "file:///srv/ann/a.py", "C:\\Users\\ann\\a.py", "D:\\\\work\\\\a.log",
        '"/home/Ann Lee/my model/a.py"', "# File: /home/Ann Lee/a.py:7 in forward",
        "/tmp/torchinductor_ann/x", "USER=ann", "LOGNAME: ann", "USERNAME = 'ann'", "HOSTNAME=anns-box",
        "HOST: anns-box", "MASTER_ADDR=anns-box", "SLURMD_NODENAME=anns-box", '"hostname": "anns-box"',
        "host = anns-box", "ann@anns-box.example", "git@anns-box:work/a.git", "box.ann.com", "box.ann.org",
        "box.ann.edu", "box.ann.gov:80", "box.internal", "box.intranet", "box.lan", "box.corp",
        "s3://anns-bucket/a", "HF_TOKEN=a", "KEY: a", "A_SECRET=a", "DB_PASSWORD=a", "PASSWD=a",
        "PASSPHRASE=a", "CREDENTIALS=a", "X_APIKEY=a", "AUTH=a", "--token a", "--apikey=a", "--api-key a",
        "-secret a", "--password a", "--passwd a", "GPU-00000001-0002-0003-0004-000000000005",
        "MIG-00000001-0002-0003-0004-000000000005", "https://ann:secret1@box/",
        *(f"gh{kind}_{'a1' * 12}" for kind in "pousr"), "ASIA" + "A1" * 8,
    ],
)  # fmt: skip
def test_no_pattern_fits_a_line_without_the_words_that_are_looked_for(line: str) -> None:
    forms = [form for form in _FORMS if form._pattern.search(line)]
    assert forms and all(any(form.finditer(line)) for form in forms)
