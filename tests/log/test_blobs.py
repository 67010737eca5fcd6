"""Blobs: what comes back is what was put, or an error that names the file."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewake.errors import InvalidValueError, StorageError
from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs", Disk(), durable=False)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.binary(max_size=5_000))
def test_bytes_come_back_under_their_hash(store: BlobStore, data: bytes) -> None:
    sha256 = store.put(data)
    assert sha256 == hashlib.sha256(data).hexdigest()
    assert store.get(sha256) == data
    assert store.has(sha256)


def test_a_blob_is_compressed_private_and_in_its_place(store: BlobStore) -> None:
    sha256 = store.put(b"abc" * 10_000)
    path = store.directory / sha256
    assert store.path(sha256) == path
    assert path.stat().st_size < 1_000
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_durable_blob_is_synced_with_its_directory(tmp_path: Path, disk: Any) -> None:
    (tmp_path / "blobs").mkdir()
    BlobStore(tmp_path / "blobs", disk, durable=True).put(b"x")
    assert disk.calls == ["write", "sync", "rename", "sync_directory"]


def test_several_durable_blobs_share_the_sync_of_their_directory(tmp_path: Path, disk: Any) -> None:
    (tmp_path / "blobs").mkdir()
    names = BlobStore(tmp_path / "blobs", disk, durable=True).put_all([b"x", b"y", b"x"])
    assert names == [hashlib.sha256(data).hexdigest() for data in (b"x", b"y", b"x")]
    assert disk.calls.count("sync_directory") == 1
    assert disk.calls[-1] == "sync_directory"


def test_blobs_whose_directory_was_not_synced_are_made_durable_again(
    tmp_path: Path, disk: Any
) -> None:
    (tmp_path / "blobs").mkdir()
    store = BlobStore(tmp_path / "blobs", disk, durable=True)
    disk.fail("sync_directory")
    with pytest.raises(StorageError, match="Could not sync"):
        store.put_all([b"x", b"y"])
    disk.calls.clear()
    store.put_all([b"x", b"y"])
    assert disk.calls == ["sync", "sync", "sync_directory"]


def test_what_is_there_is_not_written_again_but_made_durable_once(
    tmp_path: Path, disk: Any, store: BlobStore
) -> None:
    store.put(b"x")
    durable = BlobStore(store.directory, disk, durable=True)
    durable.put(b"x")
    assert disk.calls == ["sync", "sync_directory"]
    durable.put(b"x")
    assert disk.calls == ["sync", "sync_directory"]


@pytest.mark.parametrize("found", [b"", b"garbage", b"(\xb5/\xfd"])
def test_a_file_that_a_crash_left_damaged_is_written_again(store: BlobStore, found: bytes) -> None:
    sha256 = hashlib.sha256(b"data").hexdigest()
    path = store.path(sha256)
    path.parent.mkdir(parents=True)
    path.write_bytes(found)
    assert store.put(b"data") == sha256
    assert store.get(sha256) == b"data"


def test_a_damaged_blob_is_an_error_that_names_it(store: BlobStore) -> None:
    sha256 = store.put(b"data" * 100)
    path = store.path(sha256)
    for damaged in (path.read_bytes()[:-3], b"", b"\0" * 40):
        path.write_bytes(damaged)
        with pytest.raises(StorageError, match="damaged") as found:
            store.get(sha256)
        assert found.value.path == str(path)


def test_another_blob_s_bytes_are_not_taken_for_this_one(store: BlobStore) -> None:
    one, other = store.put(b"one"), store.put(b"other")
    store.path(one).write_bytes(store.path(other).read_bytes())
    with pytest.raises(StorageError, match="damaged"):
        store.get(one)


def test_a_missing_blob_is_an_error_that_names_it(store: BlobStore) -> None:
    with pytest.raises(StorageError, match="Could not read"):
        store.get("0" * 64)
    assert not store.has("0" * 64)


@pytest.mark.parametrize("name", ["", "../x", "A" * 64, "0" * 63, "/etc/passwd"])
def test_only_a_hash_names_a_blob(store: BlobStore, name: str) -> None:
    with pytest.raises(InvalidValueError, match="names no blob"):
        store.get(name)


def test_a_disk_that_fails_is_a_storage_error_and_nothing_is_remembered(
    tmp_path: Path, disk: Any
) -> None:
    store = BlobStore(tmp_path / "blobs", disk, durable=True)
    disk.fail("rename")
    with pytest.raises(StorageError, match="Could not write"):
        store.put(b"x")
    assert store.get(store.put(b"x")) == b"x"
