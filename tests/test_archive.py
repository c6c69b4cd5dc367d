"""Archives: what is unpacked, and what is refused with nothing left behind."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import random
import resource
import shutil
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inspector.model.problem import InspectorError
from inspector.present.identity import unpacking_text
from inspector.readers import archive
from inspector.readers.archive import unpack


@pytest.fixture(autouse=True)
def unpacked_under(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Unpacking goes to a folder that the test can look into."""
    folder = tmp_path / "unpacked"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def make_tar(path: Path, *members: tarfile.TarInfo, data: bytes = b"text") -> Path:
    with tarfile.open(path, "w:xz" if path.suffix == ".xz" else "w") as tar:
        for member in members:
            if member.isreg():
                member.size = len(data)
            tar.addfile(member, io.BytesIO(data) if member.isreg() else None)
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def test_files_and_folders_are_unpacked(tmp_path: Path) -> None:
    folder = tarfile.TarInfo("run/empty")
    folder.type = tarfile.DIRTYPE
    path = make_tar(tmp_path / "a.tar.xz", tarfile.TarInfo("run/x.txt"), folder)
    target = unpack(path)
    assert (target / "run" / "x.txt").read_bytes() == b"text"
    assert (target / "run" / "empty").is_dir()


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "a/../../evil", "C:/evil", "..\\evil"])
def test_members_outside_the_folder_are_refused(tmp_path: Path, unpacked_under: Path, name: str) -> None:
    path = make_tar(tmp_path / "a.tar", tarfile.TarInfo("good"), tarfile.TarInfo(name))
    with pytest.raises(InspectorError, match="outside the folder"):
        unpack(path)
    assert not list(unpacked_under.iterdir()), "nothing may be left behind"
    bundle = tmp_path / "a.zip"
    with zipfile.ZipFile(bundle, "w") as file:
        file.writestr(name, "x")
    with pytest.raises(InspectorError, match="outside the folder"):
        unpack(bundle)


@pytest.mark.parametrize(
    "member", [link("l", "/etc/passwd"), link("l", "x", tarfile.LNKTYPE), link("l", "", tarfile.CHRTYPE)]
)
def test_links_and_devices_are_refused(tmp_path: Path, member: tarfile.TarInfo) -> None:
    with pytest.raises(InspectorError, match=r"is a (link|special file)"):
        unpack(make_tar(tmp_path / "a.tar", member))


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    info = zipfile.ZipInfo("l")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(info, "/etc/passwd")
    with pytest.raises(InspectorError, match="is a link"):
        unpack(path)


def test_a_bomb_is_refused_by_its_ratio(tmp_path: Path, unpacked_under: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros", b"\0" * (80 << 20))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive, "MAX_RATIO", 500)
        with pytest.raises(InspectorError, match="refused: unpacks to more than"):
            unpack(path)
    assert not list(unpacked_under.iterdir())


def test_too_many_bytes_and_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_tar(tmp_path / "a.tar", tarfile.TarInfo("x"), tarfile.TarInfo("y"))
    monkeypatch.setattr(archive, "MAX_BYTES", 5)
    with pytest.raises(InspectorError, match="unpacks to more than"):
        unpack(path)
    monkeypatch.setattr(archive, "MAX_MEMBERS", 1)
    with pytest.raises(InspectorError, match="more than 1 members"):
        unpack(path)


@pytest.mark.parametrize("name", ["a.tar.gz", "a.tar.xz", "a.zip", "a.tar"])
def test_damaged_archives_get_one_line(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"this is no archive")
    with pytest.raises(InspectorError, match="not a readable archive") as error:
        unpack(path)
    assert "\n" not in str(error.value)


def test_a_truncated_archive_is_refused(tmp_path: Path, unpacked_under: Path) -> None:
    whole = make_tar(tmp_path / "a.tar.xz", tarfile.TarInfo("x"), data=bytes(range(256)) * 400)
    cut = tmp_path / "cut.tar.xz"
    cut.write_bytes(whole.read_bytes()[:-60])
    with pytest.raises(InspectorError, match="not a readable archive"):
        unpack(cut)
    assert not list(unpacked_under.iterdir())


def header(name: bytes, kind: bytes, size: int) -> bytes:
    """A tar header, its checksum right."""
    fields = struct.pack("100s8s8s8s12s12s", name, b"644", b"0", b"0", b"%011o" % size, b"0")
    rest = struct.pack("c100s8s", kind, b"", b"ustar  ").ljust(512 - 156, b"\0")
    check = sum(fields) + sum(rest) + 8 * 32
    return fields + b"%06o\0 " % check + rest


def many(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(2001):
            file.write(header(b"x", b"0", 0) * 100)


def announced(path: Path) -> None:
    """200,100 entries by its end, as zip64 says it."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x", "x")
    data = path.read_bytes()
    end = data.rindex(b"PK\5\6")
    large = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 200_100, 200_100, 47, end - 47)
    locator = struct.pack("<4sIQI", b"PK\6\7", 0, end, 1)
    path.write_bytes(data[:end] + large + locator + data[end:])


def dictionary(path: Path) -> None:
    """An .xz that says it needs 1.5 GiB: its block's dictionary has 3 << 29 bytes (xz-file-format.txt)."""
    data = bytearray(lzma.compress(b"x" * 600, preset=0))
    size = (data[12] + 1) * 4
    data[16] = 37
    data[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(data[12 : 12 + size - 4]))
    path.write_bytes(data)


def lying(path: Path) -> None:
    """A zip whose end says one entry, before which 300,000 stand."""
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x", "x")
    data = path.read_bytes()
    table, end = data.index(b"PK\1\2"), data.rindex(b"PK\5\6")
    many = data[table:end] * 300_000
    changed = bytearray(data[end:])
    struct.pack_into("<I", changed, 12, len(many))
    path.write_bytes(data[:table] + many + changed)


def zstd(path: Path) -> None:
    path.write_bytes(b"\x28\xb5\x2f\xfd" + bytes(600))


def lzma_in_zip(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("x", "x")


def in_zip(name: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as file:
            info = zipfile.ZipInfo("x")
            info.filename = name
            file.writestr(info, b"")

    return make


def raw(*parts: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        path.write_bytes(b"".join(parts) + bytes(1024))

    return make


def pax(records: bytes) -> bytes:
    return header(b"p", b"x", len(records)) + records.ljust(-(-len(records) // 512) * 512, b"\0")


DEEP = "/".join(["d"] * 1900) + "/x"
DEEP_RECORD = b"%d path=%s\n" % (len(DEEP) + 11, DEEP.encode())
LONG = header(b"././@LongLink", b"L", 1 << 30)
HOSTILE: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a long name of 1 GiB": ("a.tar", raw(LONG, bytes(1 << 20)), "header of 1024"),
    "a PAX record of 1 GiB": ("a.tar", raw(header(b"p", b"x", 1 << 30), bytes(1 << 20)), "header of 1024"),
    "one hidden by another's size": (
        "a.tar",
        raw(pax(b"9 size=0\n"), header(b"a", b"0", 1024), LONG, bytes(512)),
        "header that says size",
    ),
    "a size below zero": ("a.tar", raw(header(b"a", b"0", -512)), "below zero"),
    "a size below zero by PAX": ("a.tar", raw(pax(b"13 size=-512\n"), header(b"a", b"0", 0)), "says size"),
    "a sparse member": ("a.tar", raw(pax(b"23 GNU.sparse.major=1\n"), header(b"a", b"0", 0)), "GNU.sparse"),
    "a chain of PAX headers": ("a.tar", raw(header(b"p", b"x", 0) * 5000), "headers without end"),
    "a file and a folder": (
        "a.tar",
        raw(header(b"a", b"0", 0), header(b"a/b", b"0", 0)),
        "is a file and a folder",
    ),
    "a dictionary of 1.5 GiB": ("a.tar.xz", dictionary, "takes more than 256 MiB of memory"),
    "packed by zstd": ("a.tar.gz", zstd, "zstd"),
    "a table of 300,000 entries that says 1": ("a.zip", lying, "more than 200000 members"),
    "LZMA in a zip": ("a.zip", lzma_in_zip, "packed as those of no run"),
    "1,900 nested folders": ("a.tar", raw(pax(DEEP_RECORD), header(b"x", b"0", 0)), "without end"),
    "1,900 nested folders in a zip": ("a.zip", in_zip(DEEP), "without end"),
    "no name": ("a.tar", raw(header(b"", b"0", 0)), "without a name"),
    "no name in a zip": ("a.zip", in_zip(""), "without a name|not a readable"),
    "200,100 members": ("a.tar.gz", many, "more than 200000 members"),
    "200,100 members in a zip": ("a.zip", announced, "more than 200000 members"),
    "a NUL in a name": ("a.tar", raw(pax(b"12 path=a\0b\n"), header(b"x", b"0", 0)), "not a readable"),
    "a pipe of its own": ("a.tar", lambda path: os.mkfifo(path), "not a readable archive"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_archive_is_refused_at_once(tmp_path: Path, unpacked_under: Path, name: str) -> None:
    file, make, said = HOSTILE[name]
    make(tmp_path / file)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(InspectorError, match=said) as error:
        unpack(tmp_path / file)
    assert time.process_time() - started < 6, "seconds, of which it takes one"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000, "kilobytes"
    assert len(str(error.value)) < 400 and not list(unpacked_under.iterdir())


def test_a_bomb_is_refused_before_it_is_on_the_disk(
    tmp_path: Path, unpacked_under: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as bundle:
        bundle.writestr("zeros", b"\0" * (80 << 20))
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        member = tarfile.TarInfo("zeros")
        member.size = 80 << 20
        tar.addfile(member, io.BytesIO(b"\0" * member.size))
    monkeypatch.setattr(archive, "MAX_RATIO", 500)
    monkeypatch.setattr(archive, "_copy", lambda *_: pytest.fail("written"))
    for name in ("a.zip", "a.tar.gz"):
        with pytest.raises(InspectorError, match="unpacks to more than"):
            unpack(tmp_path / name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_folder_behind(
    tmp_path: Path, unpacked_under: Path, number: signal.Signals
) -> None:
    path = make_tar(tmp_path / "a.tar", tarfile.TarInfo("x"))
    code = (
        "import signal, sys, time; from pathlib import Path; from inspector.readers.archive import unpack;"
        # Under nohup a child would ignore SIGHUP, too.
        "signal.signal(int(sys.argv[2]), signal.SIG_DFL);"
        "unpack(Path(sys.argv[1])); print('ready', flush=True); time.sleep(30)"
    )
    words = [sys.executable, "-c", code, str(path), str(int(number))]
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, env={**os.environ, "TMPDIR": str(unpacked_under)}
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        assert list(unpacked_under.iterdir())
        process.send_signal(number)
    assert process.returncode == -number and not list(unpacked_under.iterdir())


def test_folders_that_no_member_is_are_counted(
    tmp_path: Path, unpacked_under: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "MAX_MEMBERS", 100)
    path = make_tar(tmp_path / "a.tar", *(tarfile.TarInfo(f"{n}/{'d/' * 60}x") for n in range(3)))
    with pytest.raises(InspectorError, match="more than 100 members"):
        unpack(path)
    assert not list(unpacked_under.iterdir())


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes, "gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress,
}  # fmt: skip
FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


@pytest.mark.parametrize("form", FORMATS, ids=["ustar", "gnu", "pax"])
@pytest.mark.parametrize("packed", PACKED)
def test_what_is_unpacked_is_what_tarfile_packed(tmp_path: Path, form: int, packed: str) -> None:
    """Names and sizes of all kinds, in each format and packing, whatever the file is called."""
    chance = random.Random(form)
    files = {f"a/{'n' * length}/{'m' * 40}é.txt": chance.randbytes(length * 7) for length in (1, 60, 70, 73)}
    if form != tarfile.USTAR_FORMAT:
        files |= {f"{'long/' * 30}{'x' * 120}": b"", "ü\u4e2d\U0001f468": chance.randbytes(1024)}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=form) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mtime = len(data), -1.5 if form == tarfile.PAX_FORMAT else 5
            tar.addfile(member, io.BytesIO(data))
    path = tmp_path / "wrong.tar"
    path.write_bytes(PACKED[packed](buffer.getvalue()))
    target = unpack(path)
    assert {str(p.relative_to(target)): p.read_bytes() for p in target.rglob("*") if p.is_file()} == files


@pytest.mark.parametrize("blocks", range(1, 8))
def test_a_plain_archive_that_is_cut_anywhere_is_said_to_be(tmp_path: Path, blocks: int) -> None:
    """Also right behind a member, where only the mark of the end is missing."""
    path = make_tar(tmp_path / "a.tar", *map(tarfile.TarInfo, ("x", "y", "z")), data=b"d" * 700)
    path.write_bytes(path.read_bytes()[: blocks * 512])
    with pytest.raises(InspectorError, match="it is cut short"):
        unpack(path)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress], ids=["gz", "bz2", "xz"])
def test_streams_that_are_joined_are_one(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = make_tar(tmp_path / "a.tar", tarfile.TarInfo("x"), data=b"y" * 5000).read_bytes()
    path = tmp_path / "a.tgz"
    path.write_bytes(b"".join(pack(data[n : n + 700]) for n in range(0, len(data), 700)) + bytes(64))
    assert (unpack(path) / "x").read_bytes() == b"y" * 5000
    for cut in (70, 400):
        path.write_bytes(path.read_bytes()[:-cut])
        with pytest.raises(InspectorError, match="not a readable archive"):
            unpack(path)


def test_a_zip_by_its_content_and_no_room_for_it(
    tmp_path: Path, unpacked_under: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.tar.gz"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("run/x", "x" * 50_000)
    assert (unpack(path) / "run" / "x").stat().st_size == 50_000
    archive.remove_unpacked()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
    try:
        with pytest.raises(InspectorError, match="cannot be unpacked: File too large; TMPDIR"):
            unpack(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert not list(unpacked_under.iterdir())
    shutil.rmtree(unpacked_under)
    with pytest.raises(InspectorError, match="no folder to unpack it in"):
        unpack(path)


@pytest.mark.parametrize("kind", ["tar.xz", "zip"])
def test_how_far_an_archive_is_unpacked_is_known_meanwhile(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    for number in range(40):
        (folder / f"{number}.bin").write_bytes(random.Random(number).randbytes(9_000))
    made = shutil.make_archive(str(tmp_path / "run"), {"tar.xz": "xztar"}.get(kind, kind), folder)
    seen: list[tuple[float, int] | None] = []
    add = archive._add

    def watched(*args: Any) -> None:
        seen.append(archive.part_unpacked(Path(made)))
        add(*args)

    monkeypatch.setattr(archive, "_add", watched)
    archive.unpack(Path(made))
    parts = [item[0] for item in seen if item is not None]
    assert len(parts) == len(seen) and parts == sorted(parts)
    assert 0 < parts[0] < parts[-1] <= 1 and parts[-1] > 0.9
    assert {item[1] for item in seen if item} == {Path(made).stat().st_size}
    assert archive.part_unpacked(Path(made)) is None
    assert unpacking_text("run.zip", (0.421, 12_300_000)) == "unpacking run.zip: 42 % of 12.3 MB"
