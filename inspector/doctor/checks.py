"""The registry of rules, the compilation for real, and the verdict. Pure: facts in, findings out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from inspector.doctor.cpu import check_compiler, check_threads, check_vectors
from inspector.doctor.errors import findings_of, first_useful_line
from inspector.doctor.gpu import check_gpu
from inspector.doctor.software import check_caches, check_confinement, check_python, check_torch, check_triton
from inspector.doctor.variables import check_environment
from inspector.model.doctor import Diagnosis, Facts, Finding
from inspector.units import duration, plural

Check = Callable[[Facts], Iterable[Finding]]

_SWITCHES = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")


def check_compile_cpu(facts: Facts) -> Iterator[Finding]:
    yield from _compiled(facts, "compile_cpu", "CPU")


def check_compile_gpu(facts: Facts) -> Iterator[Finding]:
    yield from _compiled(facts, "compile_gpu", "GPU")


def _compiled(facts: Facts, section: str, device: str) -> Iterator[Finding]:
    """What came of compiling a small function; a result is no proof, Inductor's count of kernels is."""
    if section not in facts:
        return
    seen = facts[section]
    ok, warn, bad = findings_of(section)
    compiled = f"a small function compiled for the {device} in {duration(seen.get('seconds', 0) * 1e3)}"
    error = facts.failure(section) or seen.get("error")
    if error is not None:
        reason = first_useful_line(error)
        # An assertion has no message: its place is all that can be said.
        if reason.endswith("Error:") and seen.get("place"):
            reason = f"{reason[:-1]} at {seen['place']}"
        yield bad(
            f"compiling a small function for the {device} failed: {reason}",
            "torch.compile fails in the same way in a program",
            "mend what is bad above; the whole error is in the facts of --json",
        )
    elif not seen["kernels"]:
        yield _not_compiled(facts, section, device)
    elif not seen["right"]:
        yield bad(
            f"a small function compiled for the {device} gives wrong results, "
            f"off by up to {seen['error_size']:.3g}",
            "compiled programs can't be trusted here",
            "report it to pytorch with python -m torch.utils.collect_env; try another compiler or driver",
        )
    elif "output_code.py" not in seen["artifacts"]:
        yield warn(
            f"{compiled}, but left no files",
            "there would be nothing to open: torch_compile_debug has no output_code.py",
            "see the lines on environment and caches: a remote cache may have had it",
        )
    else:
        yield ok(
            f"{compiled} with an empty cache: "
            f"{plural(seen['kernels'], 'kernel')}, right results, "
            f"{len(seen['artifacts'])} files to open",
        )


def _not_compiled(facts: Facts, section: str, device: str) -> Finding:
    switch = next((name for name in _SWITCHES if facts.environment.get(name) == "1"), None)
    if switch:
        reason, remedy = f"{switch}=1 turns torch.compile off", f"unset {switch}"
    elif facts.environment.get("TORCHDYNAMO_SUPPRESS_ERRORS"):
        reason = "the compilation failed, and TORCHDYNAMO_SUPPRESS_ERRORS hides the error"
        remedy = "unset TORCHDYNAMO_SUPPRESS_ERRORS to see it"
    else:
        reason, remedy = "Inductor made no kernel", "see the lines above; is another backend set?"
    return Finding(
        section,
        "bad",
        f"a small function ran on the {device}, but nothing was compiled: {reason}",
        "programs run eagerly in disguise: right results, no speed-up, and nothing to see",
        remedy,
    )


CHECKS: Mapping[Check, str] = {
    check_python: "torch",
    check_torch: "torch",
    check_triton: "triton",
    check_gpu: "triton",
    check_compiler: "compiler",
    check_vectors: "vectors",
    check_threads: "vectors",
    check_caches: "vectors",
    check_environment: "vectors",
    check_compile_cpu: "compile_cpu",
    check_compile_gpu: "compile_gpu",
    check_confinement: "confinement",
}
"""In the order in which they are told, each with the section of the facts after which nothing changes what it
says; facts come in the order of the probe's sections."""


def diagnose(facts: Facts) -> Diagnosis:
    """All findings in the registry's order, and the verdict."""
    findings = tuple(finding for check in CHECKS for finding in check(facts))
    return Diagnosis(verdict(findings), findings, facts)


def settled(facts: Facts) -> list[Finding]:
    """What `diagnose` will begin with, whatever is still to come."""
    ready = takewhile(lambda check: CHECKS[check] in facts, CHECKS)
    return [finding for check in ready for finding in check(facts)]


def verdict(findings: Sequence[Finding]) -> str:
    """One sentence: for what this machine can compile, what stands in the way, how many warnings."""
    status = {finding.name: finding.status for finding in findings}
    able = [
        name for name, section in (("CPU", "compile_cpu"), ("GPU", "compile_gpu")) if _works(status, section)
    ]
    bad = [finding for finding in findings if finding.status == "bad"]
    warnings = sum(finding.status == "warn" for finding in findings)
    if able:
        sentence = f"can compile for the {' and the '.join(able)}"
    else:
        sentence = "cannot compile"
    if bad:
        obstacle = f"{bad[0].text} is set" if bad[0].name == "environment" else bad[0].text
        sentence += f"{', but' if able else ':'} {obstacle}"
    elif warnings:
        sentence += f"; {plural(warnings, 'warning')}"
    return sentence


def _works(status: Mapping[str, str], section: str) -> bool:
    return status.get(section, "bad") != "bad"
