"""Packages of two Python environments: which differ, and one environment with packages of the other."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from inspector.model.blame import Factor
from inspector.model.explain import Trial
from inspector.model.problem import InspectorError
from inspector.process import output_of

SECONDS = 60.0
_LIST = """
import sys
sys.path[:] = filter(None, sys.path)
import importlib.metadata as m, json
seen = {}
for d in m.distributions():
    name = (d.metadata["Name"] or "").lower().replace("_", "-")
    if not name or name in seen:
        continue
    tops = {f.parts[0] for f in (d.files or ()) if len(f.parts) and f.parts[0] not in ("..", "__pycache__")}
    tops = sorted(t for t in tops if not t.endswith((".pth", ".egg-info")))
    seen[name] = [d.version, str(d.locate_file("")), tops]
print(json.dumps([list(sys.version_info[:2]), seen]))
"""

Packages = dict[str, tuple[str, str, tuple[str, ...]]]
"""Name -> (version, the folder that it is installed in, its top-level names there)."""


def packages_of(python: str) -> tuple[tuple[int, int], Packages]:
    """The interpreter's version and what it has installed. Raises InspectorError where it says nothing."""
    answer = output_of([python, "-c", _LIST], SECONDS, os.environ)
    try:
        version, listed = json.loads((answer or b"").splitlines()[-1])
        return tuple(version), {name: (v, place, tuple(tops)) for name, (v, place, tops) in listed.items()}
    except (ValueError, IndexError, TypeError):
        raise InspectorError(f"--python {python}: not a Python interpreter, or it gives no answer") from None


def differing_packages(a: str, b: str) -> tuple[list[Factor], list[str]]:
    """(packages of A that can take the place of B's, what differs and can't be mixed)."""
    (our_version, ours), (their_version, theirs) = packages_of(a), packages_of(b)
    versions = {name: (_version(ours, name), _version(theirs, name)) for name in sorted({*ours, *theirs})}
    words = {name: f"{name} {one}, not {two}" for name, (one, two) in versions.items() if one != two}
    if our_version != their_version:
        python = f"Python {'.'.join(map(str, our_version))}, not {'.'.join(map(str, their_version))}"
        return [], [python, *words.values()]
    fixed = [text for name, text in words.items() if name not in ours]
    factors = [
        Factor("package", text, Trial(), packages=(name,)) for name, text in words.items() if name in ours
    ]
    return factors, fixed


def _version(packages: Packages, name: str) -> str:
    return packages[name][0] if name in packages else "absent"


def overlay(python: str, names: Sequence[str], folder: Path) -> str:
    """A folder, below `folder`, that has these packages of the interpreter's environment and nothing else."""
    _, known = packages_of(python)
    chosen = sorted(set(names) & set(known))
    digest = hashlib.sha256(" ".join(chosen).encode()).hexdigest()[:12]
    place = folder / "packages" / digest
    place.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        _, home, tops = known[name]
        for top in tops:
            link = place / top
            if not link.is_symlink() and (Path(home) / top).exists():
                link.symlink_to(Path(home) / top)
    return str(place)
