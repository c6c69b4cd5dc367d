"""Questions that are asked of many runs, ready by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Question(NamedTuple):
    """What it answers, and the SQL."""

    about: str
    sql: str


QUESTIONS: Mapping[str, Question] = {
    "all-runs": Question(
        "every run, newest first: both sides of a call, what was compiled, with which torch",
        """
        select path as run, round(faster, 3) as faster, compiled_ms, eager_ms, mode, graphs,
            graph_breaks as breaks, recompiles, round(compile_s, 1) as compile_s, torch,
            strftime(make_timestamp(cast(started * 1e6 as bigint)), '%Y-%m-%d %H:%M') as started_utc, error
        from runs order by started desc nulls last, path
        """,
    ),
    "slowest-blocks": Question(
        "places of all programs that take longest in a call",
        """
        select b.ms, b.eager_ms, b.name, b.how, b.kernels, r.torch, r.path as run
        from blocks b join runs r on b.run = r.path
        order by b.ms desc limit 50
        """,
    ),
    "breaks-by-reason": Question(
        "why graphs break, in how many runs, and one line where they do",
        """
        select count(*) as breaks, count(distinct run) as runs, reason, min(line) as line
        from breaks group by reason order by breaks desc, reason limit 50
        """,
    ),
    "recompiles-by-reason": Question(
        "which guards fail, in how many runs, and one function",
        """
        select count(*) as recompiles, count(distinct run) as runs, reason, min(function) as function
        from recompiles group by reason order by recompiles desc, reason limit 50
        """,
    ),
    "got-slower": Question(
        "commands whose call takes 5 % longer on the newest day than on the day before it (UTC, medians)",
        """
        with timed as (
            select *, cast(make_timestamp(cast(started * 1e6 as bigint)) as date) as day
            from runs where compiled_ms is not null and command is not null and started is not null
        ), days as (
            select command, mode, devices, day, median(compiled_ms) as ms, arg_max(path, started) as run
            from timed group by command, mode, devices, day
        ), pairs as (
            select *, lag(ms) over w as before_ms, lag(day) over w as before from days
            window w as (partition by command, mode, devices order by day)
        )
        select round(ms / before_ms, 3) as slower, before_ms, ms, before, day, command, mode, run
        from pairs where ms > 1.05 * before_ms and day = (select max(day) from timed)
        order by slower desc, command
        """,
    ),
    "ranks-that-differ": Question(
        "jobs whose ranks compiled or waited differently",
        """
        select run, kind, subject, text, ranks from differences order by run, kind, subject
        """,
    ),
    "slower-than-eager": Question(
        "runs that compiling made slower, worst first",
        """
        select round(1 / faster, 3) as slower, compiled_ms, eager_ms, verdict, path as run
        from runs where outcome = 'slower' and faster > 0 order by faster limit 50
        """,
    ),
    "findings-by-rule": Question(
        "what is found most often, and what it would save in all",
        """
        select rule, count(*) as findings, count(distinct run) as runs, sum(cost_ms) as saves_ms
        from findings where severity <> 'low' group by rule order by findings desc, rule
        """,
    ),
    "kernels-far-from-the-roof": Question(
        "kernels that reach least of what the machine allows, of those that take longest",
        """
        select k.roofline_fraction, k.ms, k.name, k.lines, k.run from kernels k
        where k.roofline_fraction is not null order by k.ms * (1 - k.roofline_fraction) desc limit 50
        """,
    ),
    "longest-compiles": Question(
        "runs that took longest to compile",
        """
        select compile_s, graphs, graph_breaks, recompiles, torch, path as run
        from runs where compile_s is not null order by compile_s desc limit 50
        """,
    ),
    "bad-runs": Question(
        "what could not be read, and why",
        """
        select path, error from runs where error is not null order by path
        """,
    ),
}
