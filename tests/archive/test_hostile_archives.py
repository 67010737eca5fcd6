"""An archive from a stranger: whatever is wrong with it, nothing of it is taken over."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.archive.machines import Machine

from rewake.archive.container import (
    MANIFEST,
    ArchiveError,
    ArchiveReader,
    Manifest,
    Member,
    Redaction,
    zstd_module,
)
from rewake.archive.importing import check_archive

LINE = b'{"event_id":"x"}\n'


def made(
    path: Path,
    members: dict[str, bytes],
    *,
    session_id: str = "stranger",
    origins: tuple[str, ...] = (),
    change: Callable[[tarfile.TarFile], None] | None = None,
    hashes: dict[str, str] | None = None,
) -> Path:
    """An archive as an attacker would make it: with tarfile, and a manifest that agrees."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            add(tar, name, data)
        if change is not None:
            change(tar)
        listed = tuple(
            Member(name, len(data), (hashes or {}).get(name, hashlib.sha256(data).hexdigest()))
            for name, data in members.items()
        )
        manifest = Manifest(session_id, listed, Redaction(enabled=False), origins=origins)
        add(tar, MANIFEST, msgspec.json.encode(manifest))
    path.write_bytes(zstd_module().compress(buffer.getvalue()))
    return path


def add(tar: tarfile.TarFile, name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.type = len(data), kind
    if kind in {tarfile.SYMTYPE, tarfile.LNKTYPE}:
        info.linkname = "/etc/passwd"
    tar.addfile(info, io.BytesIO(data))


def refused(there: Machine, path: Path, why: str) -> None:
    before = sorted(there.root.rglob("*"))
    with pytest.raises(ArchiveError, match=why):
        there.take(path)
    assert sorted(there.root.rglob("*")) == before


GOOD = {"session/transcript.jsonl": LINE}


def test_the_attackers_own_archive_is_fine_without_an_attack(
    there: Machine, tmp_path: Path
) -> None:
    assert there.take(made(tmp_path / "x", GOOD)).outcome == "imported"


@pytest.mark.parametrize(
    "name",
    [
        "../evil",
        "/etc/evil",
        "session/../../evil",
        "session/outputs/../../evil",
        "session/outputs/a/../b",
        "session/agents/.hidden",
        "session/agents/a/b.jsonl",
        "session/lock",
        "session/./transcript.jsonl",
        "blobs/../x",
        "blobs/AB",
        "origins/../x.jsonl",
        "project.json/x",
        "C:\\evil",
        "session/outputs/a\nb/c",
        "other",
        "",
    ],
)
def test_a_name_of_no_known_form_is_refused(there: Machine, tmp_path: Path, name: str) -> None:
    refused(there, made(tmp_path / "x", {**GOOD, name: b"x"}), "no place|no archive")


@pytest.mark.parametrize(
    "kind",
    [
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.DIRTYPE,
        tarfile.FIFOTYPE,
        tarfile.CHRTYPE,
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_SPARSE,
        tarfile.CONTTYPE,
    ],
)
def test_anything_but_a_regular_file_is_refused(
    there: Machine, tmp_path: Path, kind: bytes
) -> None:
    def change(tar: tarfile.TarFile) -> None:
        add(tar, "session/agents/a.jsonl", b"", kind)

    refused(there, made(tmp_path / "x", GOOD, change=change), "no regular file")


def test_two_members_of_one_name_are_refused(there: Machine, tmp_path: Path) -> None:
    def change(tar: tarfile.TarFile) -> None:
        add(tar, "session/transcript.jsonl", b"other\n")

    refused(there, made(tmp_path / "x", GOOD, change=change), "two members")


def test_a_wrong_hash_is_refused(there: Machine, tmp_path: Path) -> None:
    wrong = {"session/transcript.jsonl": "0" * 64}
    refused(there, made(tmp_path / "x", GOOD, hashes=wrong), "manifest says")


def test_a_blob_under_another_name_is_refused(there: Machine, tmp_path: Path) -> None:
    refused(there, made(tmp_path / "x", {**GOOD, f"blobs/{'0' * 64}": b"x"}), "another one")


def test_a_member_that_the_manifest_doesnt_name_is_refused(there: Machine, tmp_path: Path) -> None:
    def change(tar: tarfile.TarFile) -> None:
        add(tar, "session/agents/a.jsonl", b"x")

    refused(there, made(tmp_path / "x", GOOD, change=change), "manifest says")


def test_something_after_the_manifest_is_refused(there: Machine, tmp_path: Path) -> None:
    def change(tar: tarfile.TarFile) -> None:
        manifest = Manifest("stranger", (), Redaction(enabled=False))
        add(tar, MANIFEST, msgspec.json.encode(manifest))

    refused(there, made(tmp_path / "x", GOOD, change=change), "last member|two members")


@pytest.mark.parametrize("session_id", ["../x", "", "a/b", ".x", "a\x00b"])
def test_an_id_that_is_no_name_is_refused(there: Machine, tmp_path: Path, session_id: str) -> None:
    refused(there, made(tmp_path / "x", GOOD, session_id=session_id), "can't be used as an id")


def test_an_origin_that_is_no_name_is_refused(there: Machine, tmp_path: Path) -> None:
    members = {**GOOD, "origins/0.jsonl": b""}
    refused(there, made(tmp_path / "x", members, origins=("../../x",)), "can't be used as an id")
    refused(there, made(tmp_path / "y", members), "origins")


def test_no_transcript_no_import(there: Machine, tmp_path: Path) -> None:
    refused(there, made(tmp_path / "x", {"project.json": b"{}"}), "no transcript")


def test_an_archive_of_a_newer_version_is_refused(there: Machine, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        manifest = Manifest("s", (), Redaction(enabled=False), min_reader_version=2)
        add(tar, MANIFEST, msgspec.json.encode(manifest))
    (tmp_path / "x").write_bytes(zstd_module().compress(buffer.getvalue()))
    refused(there, tmp_path / "x", "reader of version 2")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    header = tarfile.TarInfo("session/transcript.jsonl")
    header.size = 1 << 32
    block = header.tobuf(tarfile.USTAR_FORMAT)
    (tmp_path / "x").write_bytes(zstd_module().compress(block + bytes(1 << 20)))
    with pytest.raises(ArchiveError, match="larger than"):
        check_archive(tmp_path / "x", bytes_max=1 << 20)


def test_a_manifest_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    header = tarfile.TarInfo(MANIFEST)
    header.size = 1 << 32
    block = header.tobuf(tarfile.USTAR_FORMAT)
    (tmp_path / "x").write_bytes(zstd_module().compress(block + bytes(1 << 20)))
    with pytest.raises(ArchiveError, match="manifest is too large"):
        check_archive(tmp_path / "x")


def test_any_number_of_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewake.archive.container._MEMBERS_MAX", 1)
    with pytest.raises(ArchiveError, match="more than 1 members"):
        check_archive(made(tmp_path / "x", {**GOOD, "project.json": b"{}"}))


@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"\x28\xb5\x2f\xfd", bytes(2000), zstd_module().compress(b"hello" * 500)],
)
def test_a_file_that_is_no_archive_is_refused(there: Machine, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x").write_bytes(data)
    refused(there, tmp_path / "x", "not imported")


def test_every_cut_and_every_changed_byte_is_noticed(
    here: Machine, there: Machine, tmp_path: Path
) -> None:
    session_id = here.talk()
    here.export(session_id, tmp_path / "x")
    data = (tmp_path / "x").read_bytes()
    for at in range(0, len(data), 11):
        (tmp_path / "cut").write_bytes(data[:at])
        refused(there, tmp_path / "cut", "not imported")
        changed = bytearray(data)
        changed[at] ^= 0x20
        (tmp_path / "changed").write_bytes(changed)
        try:
            checked = check_archive(tmp_path / "changed")
        except ArchiveError:
            continue
        assert checked == msgspec.structs.replace(check_archive(tmp_path / "x"), path=checked.path)


def test_content_that_isnt_taken_is_read_over(tmp_path: Path) -> None:
    made(tmp_path / "x", {**GOOD, "project.json": b"{}" * 1000})
    with ArchiveReader(tmp_path / "x") as reader:
        assert [name for name, _, _ in reader.members()] == [*GOOD, "project.json", MANIFEST]
