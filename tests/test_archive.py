"""Archives: what is unpacked, and what is refused with nothing left behind."""

from __future__ import annotations

import gzip
import io
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from inspector.model.problem import InspectorError
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
    path.write_bytes(data[:end] + large + data[end:])


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
        "header of 1024",
    ),
    "a chain of PAX headers": ("a.tar", raw(header(b"p", b"x", 0) * 5000), "not a readable archive"),
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
    assert time.process_time() - started < 2
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
