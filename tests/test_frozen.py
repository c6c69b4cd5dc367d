"""The package's frozen dataclasses do what the standard library's do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from dataclasses import dataclass as standard
from dataclasses import field
from typing import Any, ClassVar

import pytest

from inspector import frozen


@standard(frozen=True, slots=True)
class Theirs:
    name: str
    sizes: tuple[int, ...] = ()
    notes: dict[str, int] = field(default_factory=dict, compare=False)
    twice: str = field(init=False, repr=False)
    kind: ClassVar[str] = "any"

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", self.name * 2)


@frozen.dataclass(frozen=True, slots=True)
class Ours:
    name: str
    sizes: tuple[int, ...] = ()
    notes: dict[str, int] = field(default_factory=dict, compare=False)
    twice: str = field(init=False, repr=False)
    kind: ClassVar[str] = "any"

    def __post_init__(self) -> None:
        object.__setattr__(self, "twice", self.name * 2)


@frozen.dataclass(frozen=True, slots=True)
class Below(Ours):
    depth: int = 1


@frozen.dataclass(frozen=True, slots=True)
class Nothing:
    pass


USES: tuple[Callable[[Any], object], ...] = (
    lambda kind: repr(kind("a", (1,), {"x": 1})).replace(kind.__name__, ""),
    lambda kind: (kind("a") == kind("a", notes={"x": 1}), kind("a") == kind("b"), kind("a") == "a"),
    lambda kind: len({kind("a"), kind("a"), kind("a", (2,))}),
    lambda kind: kind("a").notes is kind("a").notes,
    lambda kind: dataclasses.replace(kind("a", (1,)), name="b").twice,
    lambda kind: dataclasses.asdict(kind("a", notes={"x": 1})),
    lambda kind: (kind.__match_args__, kind.__slots__, [item.name for item in dataclasses.fields(kind)]),
    lambda kind: pickle.loads(pickle.dumps(kind("a", (1,)))).twice,
    lambda kind: copy.copy(kind("a", (1,))).sizes,
)


@pytest.mark.parametrize("use", USES)
def test_it_is_used_as_the_standard_librarys(use: Callable[[Any], object]) -> None:
    assert use(Ours) == use(Theirs)


@pytest.mark.parametrize("kind", [Theirs, Ours, Below])
def test_it_cannot_be_changed(kind: Any) -> None:
    made = kind("a")
    with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
        made.name = "b"
    with pytest.raises(dataclasses.FrozenInstanceError, match="name"):
        del made.name


@pytest.mark.parametrize("kind", [Theirs, Ours])
def test_wrong_arguments_are_refused(kind: Any) -> None:
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError):
        kind("a", (), {}, "more")


def test_a_class_below_another_has_the_fields_of_both() -> None:
    assert Below("a", depth=2) == Below("a", (), {}, 2) != Below("a")
    assert Below("a") != Ours("a")
    assert Nothing() == Nothing() and hash(Nothing()) == hash(Nothing())
