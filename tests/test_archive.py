"""Archives: what is unpacked, and what is refused with nothing left behind."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
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
