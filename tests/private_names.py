"""Names of a person, machine and project in every file of a run, of every kind; and where they are still."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
import tarfile
from pathlib import Path

USER, HOST, PROJECT = "zquill", "forge-77", "northwind-ledger"
TOKENS = (
    "hf_QmXwVbNcTrLpKsJdHgFz42",
    "AKIAQ7ZXW3VUTS5RPON2",
    "9f86d081884c7d659a2feaa0c55ad015",
    "pa55w0rd-x1",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
)
NOTES = (
    f"from /home/{USER}/{PROJECT}/ckpt/step_9 and /mnt/{PROJECT}/shards/a.bin by {USER} on {HOST}",
    f"export HF_TOKEN={TOKENS[0]} AWS_ACCESS_KEY={TOKENS[1]} WANDB_API_KEY={TOKENS[2]}",
    f"origin https://{USER}:{TOKENS[3]}@git.northwind.internal/{PROJECT}.git",
    f"origin git@git.northwind.internal:ml/{PROJECT}.git",
    f"mail {USER}.smith@northwind.example, node {HOST}.northwind.internal, tcp://10.20.30.40:29500",
    f"Authorization: Bearer {TOKENS[4]}; C:\\Users\\{USER}\\{PROJECT}\\a.py; /tmp/torchinductor_{USER}/x",
)  # fmt: skip
PRIVATE = (USER, HOST, PROJECT, *TOKENS, "northwind", "10.20.30.40")
_ENVELOPE = re.compile(rb"[VIWEC]\d{4} ")


def plant(run: Path) -> list[Path]:
    """Rewrites every text below `run` so that it names them; the files that it wrote."""
    files = [path for path in sorted(run.rglob("*")) if path.is_file()]
    return [path for path in files if _plant(path)]


def _plant(path: Path) -> bool:
    data = path.read_bytes()
    packed = data[:2] == b"\x1f\x8b"
    if packed:
        data = gzip.decompress(data)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return False
    text = text.replace("/home/user/", f"/home/{USER}/{PROJECT}/").replace(
        "torchinductor_user", f"torchinductor_{USER}"
    )
    text = _noted(path.name.removesuffix(".gz"), text)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    return True


def _noted(name: str, text: str) -> str:
    if name.endswith(".json"):
        value = json.loads(text)
        if not isinstance(value, dict):
            return text
        value["note"] = NOTES
        if name == "inspector.json":
            value["host"] = HOST
            value.setdefault("environment", {}).update(
                PLANTED_BY=USER, LEDGER_API_KEY=TOKENS[2], SHARDS=f"/mnt/{PROJECT}/s"
            )
        return json.dumps(value, indent=2) + "\n"
    if name.endswith(".jsonl"):
        first, _, rest = text.partition("\n")
        return json.dumps({**json.loads(first), "note": NOTES}) + "\n" + rest
    if _ENVELOPE.match(text.encode()) and "] {" in text.partition("\n")[0]:
        payload = "\n".join(NOTES)
        head = {"artifact": {"name": "note", "encoding": "string"}, "has_payload": _md5(payload)}
        lines = "".join(f"\t{line}\n" for line in payload.split("\n"))
        return _whole(text.rstrip("\n")) + f"\nV1121 05:08:10.016000 1 a.py:1] {json.dumps(head)}\n{lines}"
    mark = "// " if name.endswith((".ttir", ".ttgir", ".ptx")) else "; " if name.endswith(".llir") else "# "
    return text.rstrip("\n") + "\n" + "".join(f"{mark}{note}\n" for note in NOTES)


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def payloads(text: str) -> list[tuple[str, str]]:
    """(digest, payload) of every event of a trace that has one."""
    events = re.findall(r'^\S.*"has_payload": "(\w+)".*\n((?:\t.*(?:\n|\Z))+)', text, re.M)
    return [(digest, re.sub(r"(?m)^\t", "", body.removesuffix("\n"))) for digest, body in events]


def whole(text: str) -> list[bool]:
    """Of every event with a payload: whether its digest is the payload's."""
    return [digest == _md5(payload) for digest, payload in payloads(text)]


def _whole(text: str) -> str:
    """The trace with the digests that its payloads have."""
    for digest, payload in payloads(text):
        text = text.replace(digest, _md5(payload))
    return text


def leaks(archive: Path) -> list[tuple[str, str]]:
    """(member, planted text) that stands in a member's bytes, unpacked where it is packed, or in its name."""
    left = []
    with tarfile.open(archive) as tar:
        for member in tar:
            source = tar.extractfile(member)
            data = source.read() if source is not None else b""
            if data[:2] == b"\x1f\x8b":
                data = gzip.decompress(data)
            data += member.name.encode()
            left += [(member.name, text) for text in PRIVATE if text.encode() in data]
    return left
