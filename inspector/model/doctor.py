"""What `inspector doctor` found out about a machine, and what it makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from inspector.frozen import dataclass

Status = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the probe saw, by section: `python`, `packages`, `torch`, `gpu`, ...; see inspector.doctor.probe.

    A section that crashed, hung or raised holds its reason as `failure`, beside what it knew by then; one
    that was never reached is absent. `environment` is the environment of whoever asked.
    """

    sections: Mapping[str, Mapping[str, Any]]

    def __getitem__(self, name: str) -> Mapping[str, Any]:
        """The section, empty where it is absent."""
        return self.sections.get(name, {})

    def __contains__(self, name: str) -> bool:
        return name in self.sections

    def failure(self, name: str) -> str | None:
        """Why the section could not be looked at; None where it could, or is absent."""
        return self[name].get("failure")

    @property
    def environment(self) -> Mapping[str, str]:
        return self["environment"]

    @property
    def gpus(self) -> list[Mapping[str, Any]]:
        """The GPUs that torch itself can see; empty where it sees none."""
        return list(self["gpu"].get("devices", ()))


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer. `ok`: fine; `warn`: compiles, but something is lost; `bad`: cannot compile.

    `text` says what is, `effect` what it does to the user, `remedy` what to do; the last two may be empty
    where all is fine.
    """

    name: str
    status: Status
    text: str
    effect: str = ""
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole answer; `verdict` is one sentence."""

    verdict: str
    findings: tuple[Finding, ...]
    facts: Facts

    @property
    def bad(self) -> bool:
        """True where something does not compile."""
        return any(finding.status == "bad" for finding in self.findings)
