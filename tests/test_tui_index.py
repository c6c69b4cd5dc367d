"""An index of many runs in the TUI: questions, their answers, and the way to a run."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tui_support import settle, until

from inspector.model.problem import InspectorError
from inspector.present.query import Catalogue
from inspector.tui.app import InspectorApp
from inspector.tui.screens.first import FirstScreen
from inspector.tui.screens.index import IndexScreen
from inspector.tui.widgets.table_view import TableView


class Answer(NamedTuple):
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def catalogue(run: Path) -> Catalogue:
    """Three questions: of runs, of no run, and one that cannot be answered."""
    gone = str(run.parent / "gone")
    answers = {
        "all-runs": Answer(("run", "ms", "torch"), ((str(run), 2.5, "2.13"), (gone, 12.0, None))),
        "reasons": Answer(("breaks", "reason"), ((3, "print"), (1, "a [bold]word[/bold]"))),
    }

    def ask(question: str) -> Answer:
        if question not in answers:
            raise InspectorError("its parts are gone")
        return answers[question]

    return Catalogue("fleet", {name: f"about {name}" for name in (*answers, "broken")}, ask)


async def test_questions_answers_and_the_way_to_a_run(corpus: Path) -> None:
    run = corpus / "cpu-torch2.13" / "softmax"
    app = InspectorApp(catalogue=catalogue(run))
    async with app.run_test(size=(80, 24)) as pilot:
        screen = app.screen
        assert isinstance(screen, IndexScreen)
        answers = screen.query_one("#answers", TableView)
        await until(pilot, lambda: len(answers.content.rows) == 2)
        assert answers.content.title == "all-runs · 2 rows"
        assert answers.content.text(0).split() == ["softmax", "2.5", "2.13"]
        await pilot.press("tab", "O", "O", "g")
        assert [answers.content.text(row).split()[0] for row in range(2)] == ["gone", "softmax"]
        await pilot.press("enter")
        await until(pilot, lambda: "gone" in screen.bar.text and "opening" not in screen.bar.text)
        assert isinstance(app.screen, IndexScreen)
        await pilot.press("j", "enter")
        await until(pilot, lambda: isinstance(app.screen, FirstScreen))
        await pilot.press("escape", "tab", "j")
        await until(pilot, lambda: answers.content.title.startswith("reasons · 2"))
        assert "a [bold]word[/bold]" in answers.content.text(1)
        await pilot.press("enter", "enter")
        await settle(pilot)
        assert "no single run" in screen.bar.text
        await pilot.press("tab", "j")
        await until(pilot, lambda: "its parts are gone" in screen.bar.text)
        assert "asking" not in answers.content.title
