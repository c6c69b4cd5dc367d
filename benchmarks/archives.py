"""Hostile archives opened: seconds of the processor, memory and disk that each takes, and what is said of it.

    python benchmarks/archives.py [-k TEXT]      a minute

Each is made in a new folder and opened by `inspector summary` in a process of its own, with a temporary folder
of its own. Wrong is: more than 2 seconds of the processor beyond what `summary` takes anyway, more than 300 MB of memory,
anything left in the temporary folder, a traceback, or more than one line. Prints a table; 1 where one is wrong.
"""

# ruff: noqa: E501
from __future__ import annotations

import argparse
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
import tempfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path

from common import CLI, DATA, ROOT

Entry = tuple[str | zipfile.ZipInfo, bytes | str]
GIB = 1 << 30
MOST_S, MOST_MB, LIMIT_S = 2.0, 300, 120
GOOD = next(iter(sorted(DATA.glob("cpu-torch*.tar.xz"))))


def header(name: bytes, kind: bytes = b"0", size: int | bytes = 0, prefix: bytes = b"") -> bytes:
    """A tar header, its checksum right."""
    told = size if isinstance(size, bytes) else b"%011o" % size
    fields = struct.pack("100s8s8s8s12s12s", name, b"644", b"0", b"0", told, b"0")
    rest = struct.pack("c100s8s", kind, b"", b"ustar\x0000").ljust(345 - 156, b"\0") + prefix
    rest = rest.ljust(512 - 156, b"\0")
    return fields + b"%06o\0 " % (sum(fields) + sum(rest) + 256) + rest


def pax(records: bytes, kind: bytes = b"x") -> bytes:
    return header(b"p", kind, len(records)) + records + bytes(-len(records) % 512)


def record(key: bytes, value: bytes) -> bytes:
    size = len(key) + len(value) + 3
    size += len(str(size + len(str(size))))
    return b"%d %s=%s\n" % (size, key, value)


def tar(*parts: bytes) -> Callable[[Path], None]:
    return lambda path: _write(path, b"".join(parts) + bytes(1024))


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def packed(data: Callable[[], bytes], times: int, level: int = 9) -> Callable[[Path], None]:
    """gzip of `data` so many times."""

    def make(path: Path) -> None:
        piece = data()
        with gzip.open(path, "wb", compresslevel=level) as file:
            for _ in range(times):
                file.write(piece)

    return make


def zipped(
    entries: Callable[[], Iterable[Entry]], method: int = zipfile.ZIP_DEFLATED
) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with zipfile.ZipFile(path, "w", method) as file:
            for name, data in entries():
                file.writestr(name, data)

    return make


def info(name: str, mode: int = 0) -> zipfile.ZipInfo:
    made = zipfile.ZipInfo("x")
    made.filename, made.external_attr = name, mode << 16
    return made


def lying_table(path: Path, entries: int = 300_000) -> None:
    zipped(lambda: [("x", "x")])(path)
    data = path.read_bytes()
    table, end = data.index(b"PK\1\2"), data.rindex(b"PK\5\6")
    many = data[table:end] * entries
    changed = bytearray(data[end:])
    struct.pack_into("<I", changed, 12, len(many))
    path.write_bytes(data[:table] + many + changed)


def lying_sizes(path: Path) -> None:
    """A member of 1 MiB that says 10 bytes, in both places."""
    zipped(lambda: [("a.log", b"x" * (1 << 20))])(path)
    data = path.read_bytes().replace(struct.pack("<I", 1 << 20), struct.pack("<I", 10))
    path.write_bytes(data)


def overlapping(path: Path) -> None:
    """10,000 entries of one member of 1 MiB."""
    zipped(lambda: [("a", bytes(1 << 20))])(path)
    data = path.read_bytes()
    table, end = data.index(b"PK\1\2"), data.rindex(b"PK\5\6")
    changed = bytearray(data[end:])
    struct.pack_into("<HHI", changed, 8, 10_000, 10_000, (end - table) * 10_000)
    path.write_bytes(data[:table] + data[table:end] * 10_000 + changed)


def dictionary(path: Path) -> None:
    data = bytearray(lzma.compress(tarball(b"x" * 600), preset=0))
    size = (data[12] + 1) * 4
    data[16] = 37
    data[12 + size - 4 : 12 + size] = struct.pack("<I", zlib.crc32(data[12 : 12 + size - 4]))
    path.write_bytes(data)


def tarball(data: bytes, name: str = "run/a.log") -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as file:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        file.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def link(name: str, target: str, kind: bytes) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        with tarfile.open(path, "w") as file:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, target
            file.addfile(member)

    return make


def folders() -> bytes:
    return b"".join(header(b"x", b"0", 0, b"%d/" % n + b"/".join([b"d"] * 60)) for n in range(4000))


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress, "xz": lzma.compress, "bz2": bz2.compress, "": bytes,
}  # fmt: skip


def cut(share: float, suffix: str) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        data = lzma.decompress(GOOD.read_bytes())
        whole = PACK[suffix](data)
        path.write_bytes(whole[: int(len(whole) * share)])

    return make


def good_as(pack: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: _write(path, pack(lzma.decompress(GOOD.read_bytes())))


def joined(pack: Callable[[bytes], bytes], size: int) -> Callable[[Path], None]:
    def make(path: Path) -> None:
        data = lzma.decompress(GOOD.read_bytes())
        path.write_bytes(b"".join(pack(data[n : n + size]) for n in range(0, len(data), size)))

    return make


def sparse_file(path: Path) -> None:
    path.write_bytes(header(b"a", b"0", b"\x80" + (1 << 40).to_bytes(11, "big")))
    os.truncate(path, 1 << 40)


DEEP = "/".join(["d"] * 1900) + "/x"
RANDOM = random.Random(1).randbytes(1 << 20)
ZEROS = bytes(1 << 20)
CASES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "GNU long name of 1 GiB": ("a.tar.gz", packed(lambda: header(b"l", b"L", GIB) + ZEROS, 1)),
    "GNU long name of 1 GiB, all there": ("b.tar.gz", lambda path: packed_long(path)),
    "1,000 long names of 1 MiB each": ("a.tar.gz", packed(lambda: header(b"l", b"L", 1 << 20) + b"a" * (1 << 20) + header(b"x"), 1000, 1)),
    "PAX header of 1 GiB": ("a.tar", tar(header(b"p", b"x", GIB), ZEROS)),
    "PAX headers of 1 MiB, 900 in a row": ("a.tar.gz", packed(lambda: pax(record(b"comment", b"1" * 1_000_000)), 900, 1)),
    "PAX header of digits (CVE-2024-6232)": ("a.tar", tar(pax(b"1" * 1_000_000), header(b"a"))),
    "PAX size below zero (CVE-2025-8194)": ("a.tar", tar(pax(record(b"size", b"-512")), header(b"a"))),
    "PAX size that hides a header": ("a.tar", tar(pax(record(b"size", b"0")), header(b"a", b"0", 1024), bytes(1024))),
    "PAX global headers of 1 MiB, 500": ("a.tar.gz", packed(lambda: pax(record(b"k", b"v" * 1_000_000), b"g") + header(b"x"), 500, 1)),
    "PAX path with a NUL": ("a.tar", tar(pax(record(b"path", b"a\0b")), header(b"x"))),
    "PAX path upwards": ("a.tar", tar(pax(record(b"path", b"../../etc/x")), header(b"x"))),
    "a chain of 5,000 headers": ("a.tar", tar(header(b"p", b"x") * 5000)),
    "size below zero": ("a.tar", tar(header(b"a", b"0", b"\xff" * 12))),
    "size of 2^88": ("a.tar", tar(header(b"a", b"0", b"\x80" + b"\xff" * 11))),
    "times below zero and beyond": ("a.tar", tar(pax(record(b"mtime", b"-1e308") + record(b"path", b"run/a")), header(b"x"))),
    "1,900 nested folders": ("a.tar", tar(pax(record(b"path", DEEP.encode())), header(b"x"))),
    "1,900 nested folders in a zip": ("a.zip", zipped(lambda: [(info(DEEP), "x")])),
    "no name": ("a.tar", tar(header(b""))),
    "no name in a zip": ("a.zip", zipped(lambda: [(info(""), "x")])),
    "200,100 members": ("a.tar.gz", packed(lambda: header(b"x") * 100, 2001, 1)),
    "200,100 members in a zip": ("a.zip", zipped(lambda: ((info(f"{n}"), "") for n in range(200_100)), zipfile.ZIP_STORED)),
    "300,000 entries that say 1": ("a.zip", lying_table),
    "240,000 folders of 4,000 members": ("a.tar.gz", packed(folders, 1, 1)),
    "zip bomb of 2 GiB": ("a.zip", zipped(lambda: ((f"{n}", bytes(GIB)) for n in range(2)))),
    "zip bomb of one member 10,000 times": ("a.zip", overlapping),
    "gzip bomb of 8 GiB": ("a.tar.gz", packed(lambda: header(b"a", b"0", 7 * GIB) + ZEROS, 1)),
    "gzip bomb of 2 GiB, all there": ("b.tar.gz", lambda path: packed_bomb(path)),
    "xz bomb": ("a.tar.xz", lambda path: _write(path, lzma.compress(tarball(bytes(200 << 20)), preset=0))),
    "bz2 bomb": ("a.tar.bz2", lambda path: _write(path, bz2.compress(tarball(bytes(200 << 20))))),
    "xz with a dictionary of 1.5 GiB": ("a.tar.xz", dictionary),
    "LZMA in a zip": ("a.zip", zipped(lambda: [("x", "x")], zipfile.ZIP_LZMA)),
    "a zip that lies of its sizes": ("a.zip", lying_sizes),
    "a zip in a zip's comment": ("a.zip", lambda path: with_comment(path)),
    "an encrypted zip": ("a.zip", lambda path: encrypted(path)),
    "sparse member, GNU": ("a.tar", tar(header(b"a", b"S", 512), bytes(512))),
    "sparse member, PAX": ("a.tar", tar(pax(record(b"GNU.sparse.realsize", b"9" * 15)), header(b"a"))),
    "a sparse file of 1 TiB": ("a.tar", sparse_file),
    "symbolic link out": ("a.tar", link("l", "/etc/passwd", tarfile.SYMTYPE)),
    "symbolic link, then through it": ("a.tar", tar(header(b"l", b"2"), header(b"l/x"))),
    "hard link out": ("a.tar", link("l", "/etc/passwd", tarfile.LNKTYPE)),
    "hard link to itself": ("a.tar", link("l", "l", tarfile.LNKTYPE)),
    "symbolic link in a zip": ("a.zip", zipped(lambda: [(info("l", stat.S_IFLNK | 0o777), "/etc/passwd")])),
    "device": ("a.tar", link("l", "", tarfile.CHRTYPE)),
    "pipe": ("a.tar", link("l", "", tarfile.FIFOTYPE)),
    "absolute name": ("a.tar", tar(header(b"/etc/x"))),
    "name upwards": ("a.tar", tar(header(b"a/../../x"))),
    "Windows name with a drive": ("a.tar", tar(header(b"C:\\Windows\\x"))),
    "Windows name upwards": ("a.zip", zipped(lambda: [(info("..\\..\\x"), "x")])),
    "Windows devices": ("a.tar", tar(header(b"run/CON"), header(b"run/aux.log"), header(b"run/a. "))),
    "a name of 5,000 characters": ("a.tar", tar(pax(record(b"path", b"n" * 5000)), header(b"x"))),
    "a part of 300 characters": ("a.tar", tar(pax(record(b"path", b"n" * 300)), header(b"x"))),
    "a name that is no UTF-8": ("a.tar", tar(header(b"run/\xff\xfe\x1b]0;owned\x07"))),
    "the same name 1,000 times": ("a.tar", tar(*[header(b"run/a.log", b"0", 1) + b"x" + bytes(511)] * 1000)),
    "names that differ in their case": ("a.tar", tar(header(b"run/A.log"), header(b"run/a.log"))),
    "a file and a folder of one name": ("a.tar", tar(header(b"a"), header(b"a/b"))),
    "a folder and a file of one name": ("a.zip", zipped(lambda: [(info("a/"), ""), ("a", "x")])),
    "an archive in an archive": ("a.tar", lambda path: _write(path, tarball(GOOD.read_bytes(), "inner.tar.xz"))),
    "gz, half of it": ("a.tar.gz", cut(0.5, "gz")),
    "xz, half of it": ("a.tar.xz", cut(0.5, "xz")),
    "bz2, half of it": ("a.tar.bz2", cut(0.5, "bz2")),
    "tar, half of it": ("a.tar", cut(0.5, "")),
    "xz without its last byte": ("a.tar.xz", cut(0.99999, "xz")),
    "an empty file": ("a.tar.gz", lambda path: _write(path, b"")),
    "zeros": ("a.tar", lambda path: _write(path, ZEROS)),
    "random bytes": ("a.tar.gz", lambda path: _write(path, RANDOM)),
    "text": ("a.zip", lambda path: _write(path, b"this is no archive\n" * 9)),
    "a bad checksum in the middle": ("a.tar", tar(header(b"a"), header(b"b").replace(b"644", b"645"), header(b"c"))),
    "packed with zstd": ("a.tar.gz", lambda path: _write(path, b"\x28\xb5\x2f\xfd" + RANDOM)),
    "500,000 streams that hold nothing": ("a.tar.gz", lambda path: _write(path, gzip.compress(b"") * 500_000)),
    "a gzip header of 20 MB": ("a.tar.gz", lambda path: _write(path, b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 20_000_000)),
    "xz called .tar.gz": ("a.tar.gz", lambda path: _write(path, GOOD.read_bytes())),
    "plain tar called .tar.bz2": ("a.tar.bz2", good_as(bytes)),
    "zip called .tar": ("a.tar", zipped(lambda: [("model__0_inference_0.0/output_code.py", "x = 1")])),
    "gz of streams of 1,000 bytes": ("a.tar.gz", joined(gzip.compress, 1000)),
    "names that Unicode takes for one": ("a.tar", tar(header("run/\u00e9".encode()), header("run/e\u0301".encode()))),
    "300 nested folders": ("a.tar", tar(pax(record(b"path", b"d/" * 300 + b"x")), header(b"x"))),
    "300 nested folders in a zip": ("a.zip", zipped(lambda: [(info("d/" * 300 + "x"), "x")])),
    "block device": ("a.tar", link("l", "", tarfile.BLKTYPE)),
    "part of another volume": ("a.tar", tar(header(b"a", b"M", 512), bytes(512))),
    "a dumped folder": ("a.tar", tar(header(b"a", b"D", 512), bytes(512))),
    "a kind that nobody knows": ("a.tar", tar(header(b"a", b"Q", 512), bytes(512))),
    "hard link to a member before it": ("a.tar", tar(header(b"a"), header(b"b", b"1"))),
    "sparse member, PAX 1.0": ("a.tar", tar(pax(record(b"GNU.sparse.major", b"1") + record(b"GNU.sparse.name", b"../x")), header(b"a"))),
    "PAX encoding of names": ("a.tar", tar(pax(record(b"hdrcharset", b"BINARY") + record(b"path", b"run/\xff")), header(b"x"))),
    "the same name twice in a zip": ("a.zip", zipped(lambda: [(info("a.log"), "x"), (info("a.log"), "y")])),
    "a pipe in a zip": ("a.zip", zipped(lambda: [(info("l", stat.S_IFIFO | 0o600), "")])),
    "a NUL in a zip's name": ("a.zip", zipped(lambda: [(info("a\0b"), "x")])),
    "packed with lz4": ("a.tar", lambda path: _write(path, b"\x04\x22\x4d\x18" + RANDOM)),
    "7z": ("a.zip", lambda path: _write(path, b"7z\xbc\xaf\x27\x1c" + RANDOM)),
    "a gz of a gz of a tar": ("a.tar.gz", good_as(lambda data: gzip.compress(gzip.compress(data, 1), 1))),
    "a zip behind a tar": ("a.tar", good_as(lambda data: data + b"PK\5\6" + bytes(18))),
    "a folder": ("a.tar", lambda path: path.mkdir()),
    "a pipe in its place": ("a.tar.gz", lambda path: os.mkfifo(path)),
    "a device in its place": ("a.tar", lambda path: path.symlink_to("/dev/zero")),
    "a good one": ("a.tar.xz", lambda path: _write(path, GOOD.read_bytes())),
}  # fmt: skip


def packed_long(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header(b"l", b"L", GIB))
        for _ in range(1024):
            file.write(b"a" * (1 << 20))
        file.write(header(b"x"))


def packed_bomb(path: Path) -> None:
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(header(b"a", b"0", 2 * GIB))
        for _ in range(2048):
            file.write(ZEROS)


def with_comment(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("run/a.log", "x")
        file.comment = b"PK\5\6" + bytes(18) + b"PK\6\6" * 20


def encrypted(path: Path) -> None:
    zipped(lambda: [("a.log", "x")])(path)
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(data)


class Watch(threading.Thread):
    """The most that lay in a folder while it ran, in bytes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.folder, self.most, self.done = folder, 0, threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.02):
            size = 0
            for parent, _, names in os.walk(self.folder):
                for name in names:
                    try:
                        size += os.lstat(os.path.join(parent, name)).st_blocks * 512
                    except OSError:
                        continue
            self.most = max(self.most, size)


def opened(path: Path, temporary: Path) -> tuple[int, str, float, float, float]:
    """(exit code, what was said, seconds, MB of memory, MB on the disk) of `inspector summary PATH`."""
    watch = Watch(temporary)
    watch.start()
    environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [*CLI, "summary", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        env=environment, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S)),
    )  # fmt: skip
    assert process.stdout is not None
    said = process.stdout.read().decode(errors="replace")
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = used.ru_utime + used.ru_stime
    watch.done.set()
    watch.join()
    return process.returncode, said, seconds, used.ru_maxrss / 1024, watch.most / 1e6


def signals(temporary: Path, number: signal.Signals) -> str:
    """What is left of an archive that is opened when a signal comes, at several moments."""
    path = temporary.parent / "a.tar"
    with tarfile.open(path, "w") as file:
        for n in range(3000):
            member = tarfile.TarInfo(f"run/{n}")
            member.size = 20_000
            file.addfile(member, io.BytesIO(bytes(20_000)))
    left = 0
    for n in range(12):
        environment = {**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(
            [*CLI, "summary", str(path)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        time.sleep(0.1 + n * 0.05)
        process.send_signal(number)
        process.wait()
        if number == signal.SIGKILL:
            subprocess.run(
                [*CLI, "summary", str(GOOD)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environment,
            )
        left += len(os.listdir(temporary))
    path.unlink()
    return f"{'WRONG' if left else 'ok':>6}  {number.name} at 12 moments of unpacking: {left} folders left"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("-k", dest="text", default="", help="only cases with this in their name")
    chosen = parser.parse_args().text
    bad = 0
    print(f"{'':>6} {'s':>5} {'MB':>5} {'MB disk':>8}  archive: what was said", flush=True)
    with tempfile.TemporaryDirectory(prefix="archives-") as name:
        folder, temporary = Path(name) / "in", Path(name) / "tmp"
        temporary.mkdir()
        folder.mkdir()
        empty = opened(folder, temporary)[2]
        for case, (file, make) in CASES.items():
            if chosen not in case:
                continue
            make(folder / file)
            code, said, seconds, memory, disk = opened(folder / file, temporary)
            lines = said.strip().splitlines()
            wrong = []
            if seconds - empty > MOST_S:
                wrong.append("slow")
            if memory > MOST_MB:
                wrong.append("memory")
            if os.listdir(temporary):
                wrong.append("left behind")
            if code not in (0, 2) or (code == 2 and len(lines) != 1) or "Traceback" in said:
                wrong.append(f"exit code {code}")
            last = lines[0].replace(f"{folder}/", "").removeprefix("inspector: ") if code else "opened"
            mark = ",".join(wrong) or "ok"
            print(f"{mark:>6} {seconds:5.1f} {memory:5.0f} {disk:8.1f}  {case}: {last[:120]}", flush=True)
            bad += bool(wrong)
            shutil.rmtree(folder)
            shutil.rmtree(temporary)
            temporary.mkdir()
            folder.mkdir()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGKILL) if not chosen else ():
            row = signals(temporary, number)
            bad += "WRONG" in row
            print(row, flush=True)
    print(f"{bad} wrong; summary of an empty folder takes {empty:.1f} s of each")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
