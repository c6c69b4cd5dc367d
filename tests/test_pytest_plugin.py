"""The pytest plugin: tests whose compiled code keeps relations, one of them really compiled."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sharing import unpacked

from inspector import pytest_plugin
from inspector.readers.run import Run

pytest_plugins = "pytester"
SAMPLES = Path(__file__).parents[1] / "sample_runs"
PLUGIN = ("-p", pytest_plugin.PLUGIN, "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def no_other_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some keep a state of their process's only session."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


@pytest.fixture
def captured(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Tests are not run: what a test called NAME compiled is the run of that name. What was asked for."""
    asked: list[Any] = []

    def capture_test(item: pytest.Function, _folder: Path, budget: Any) -> Run:
        asked.append(budget)
        return Run.open(corpus / "cpu-torch2.13" / item.name.removeprefix("test_"))

    monkeypatch.setattr(pytest_plugin, "_capture_test", capture_test)
    return asked


def test_a_failure_names_the_line_and_torchs_reason(pytester: pytest.Pytester, captured: list[Any]) -> None:
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.compiles(recompiles=9)

        @pytest.mark.compiles(graph_breaks=0)
        def test_breaks():
            raise AssertionError("not run here")

        @pytest.mark.compiles(graph_breaks=0, share_kernel=["gelu", "layer_norm"])
        def test_norms():
            raise AssertionError("not run here")

        @pytest.mark.compiles(recompiles=0, no_fallback="*")
        def test_mlp():
            raise AssertionError("not run here")

        def test_softmax():
            raise AssertionError("not run here")
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*workload.py:8: graph break in forward: Data-dependent branching [[]graph_breaks]",
            "*more: inspector open *",
            "*mlp.py:8: aten._scaled_dot_product_flash_attention_for_cpu is left to ATen*",
        ]
    )
    assert "not run here" not in result.stdout.str()
    # A module's mark holds where the test's own says nothing; a mark of nothing asks for no break.
    asked = [(budget.graph_breaks, budget.recompiles) for budget in captured]
    assert asked == [(0, 9), (0, 9), (None, 0), (None, 9)]


def test_a_mark_that_cannot_be_read_fails_in_a_line(pytester: pytest.Pytester, captured: list[Any]) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.compiles(breaks=0)
        def test_breaks(): pass

        @pytest.mark.compiles(0)
        def test_mlp(): pass

        @pytest.mark.compiles(budget="none.toml")
        def test_norms(): pass

        @pytest.mark.compiles(budget="some.toml", recompiles=4)
        def test_softmax(): pass
        """
    )
    (pytester.path / "some.toml").write_text("graph_breaks = 3\nrecompiles = 0\n", encoding="utf-8")
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(
        ["compiles: breaks: no such relation*", "compiles: relations are named*", "*none.toml*"]
    )
    assert (captured[-1].graph_breaks, captured[-1].recompiles) == (3, 4)


def test_the_fixture_judges_a_functions_run(
    pytester: pytest.Pytester, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = unpacked(SAMPLES / "stories" / "ten_million" / "run.tar.xz", tmp_path) / "ten_million"
    calls: list[dict[str, Any]] = []

    def capture(fn: Any, *args: Any, **options: Any) -> Any:
        calls.append({"args": args, **options})
        return SimpleNamespace(
            files=Run.open(fast if options["baseline"] else corpus / "cpu-torch2.13" / fn.__name__)
        )

    monkeypatch.setattr("inspector.library.capture", capture)
    pytester.makepyfile(
        """
        def breaks(x): pass
        def softmax(x): pass

        def test_good(compiles):
            assert compiles(softmax, 3, kwargs={"y": 4}, graph_breaks=0).files
            compiles(softmax, faster=True)

        def test_bad(compiles):
            compiles(breaks, 3)
        """
    )
    result = pytester.runpytest_inprocess(*PLUGIN)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*workload.py:8: graph break in forward*"])
    assert [(call["args"], call["baseline"], call.get("y")) for call in calls] == [
        ((3,), False, 4), ((), True, None), ((3,), False, None),
    ]  # fmt: skip
    assert not any(call["out"].parent.exists() for call in calls[:2]) and calls[2]["out"].parent.exists()


def test_it_costs_nothing_where_nobody_asks(tmp_path: Path) -> None:
    (tmp_path / "test_idle.py").write_text(
        "import sys\n\ndef test_idle():\n"
        "    names = {name.partition('.')[0] for name in sys.modules}\n"
        "    assert not names & {'torch', 'textual', 'rich', 'numpy', 'networkx'}\n"
        "    ours = {name for name in sys.modules if name.startswith('inspector')}\n"
        "    assert ours == {'inspector', 'inspector.version', 'inspector.pytest_plugin'}, ours\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "pytest", "-q", *PLUGIN, f"--rootdir={tmp_path}", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_a_marked_test_is_compiled_for_real(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_model="""
        import pytest
        import torch

        @pytest.fixture
        def x():
            return torch.randn(64)

        def model(x):
            y = torch.sin(x) + 1
            print("break")
            return torch.cos(y)

        @pytest.mark.compiles(graph_breaks=0, no_fallback="*")
        @pytest.mark.parametrize("size", [64])
        def test_breaks(x, size):
            assert torch.compile(model)(x).shape == (size,)
        """
    )
    result = pytester.runpytest_subprocess(*PLUGIN)
    result.assert_outcomes(failed=1)
    # pytest's summary repeats the line whole where the environment has CI set.
    (line,) = re.findall(r"^\S+ graph break in .*", result.stdout.str(), re.MULTILINE)
    assert re.search(r"test_model\.py:10: graph break in model: .*\[graph_breaks\]", line), line
    folder = re.findall(r"inspector open (\S+)", result.stdout.str())[0]
    assert Path(folder, "inspector.json").is_file()
