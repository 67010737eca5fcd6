"""Whatever is in a settings file, it gives settings or one error with a place; nothing else."""

from __future__ import annotations

import contextlib
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.settings.conftest import Files

from rewake.errors import SettingsError
from rewake.settings import Loaded, Settings
from rewake.settings.jsonc import JsonReader
from rewake.settings.source import read_source, read_text
from rewake.settings.spots import TextError

JSON = b"""{
  // the model \xe2\x80\x94 mine
  "model": "a\\n\\u00e9\\ud83d\\ude00", /* so far */
  "max_steps": 3, "max_cost_usd": 1.5e1,
  "permissions": {"allow": ["Bash(git status:*)", "Read",], "mode": "plan"},
  "mcp_servers": {"one two": {"command": "x", "env": {"A": "b"}}},
  "memory": {"enabled": true, "recall": null},
}
"""
TOML = b"""# mine \xe2\x80\x94
model = "a\\n\xc3\xa9" # so far
max_steps = 3
permissions.allow = ["Bash(git status:*)", 'Read',
  # more
  '''Edit''', \"\"\"Write\"\"\"]
[mcp_servers."one two"]
command = "x"
env = {A = "b"}
[[hooks.Stop]]
hooks = [{command = "y"}]
[[hooks.Stop]]
matcher = "Edit"
[memory]
enabled = true
"""
SAMPLES = {".json": JSON, ".toml": TOML}
quick = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def outcome(files: Files, data: bytes, suffix: str) -> Loaded | SettingsError:
    """What loading makes of it; any other exception fails the test."""
    path = files.home / f"settings{suffix}"
    path.write_bytes(data)
    found: Loaded | SettingsError
    try:
        found = files.loaded()
    except SettingsError as error:
        found = error
    path.unlink()
    if isinstance(found, SettingsError):
        assert found.file == str(path)
        assert 1 <= found.line <= data.count(b"\n") + 1
        assert found.column >= 1
        assert f"{path}:{found.line}:{found.column}:" in found.message
        assert found.remedy
    return found


@pytest.mark.parametrize("suffix", SAMPLES)
def test_the_samples_themselves_are_fine(files: Files, suffix: str) -> None:
    assert isinstance(outcome(files, SAMPLES[suffix], suffix), Loaded)


@pytest.mark.parametrize("suffix", SAMPLES)
def test_a_file_cut_at_any_byte(files: Files, suffix: str) -> None:
    for length in range(len(SAMPLES[suffix])):
        outcome(files, SAMPLES[suffix][:length], suffix)


@quick
@given(st.sampled_from(sorted(SAMPLES)), st.data())
def test_a_file_damaged_at_any_byte(files: Files, suffix: str, data: st.DataObject) -> None:
    whole = bytearray(SAMPLES[suffix])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at : at + data.draw(st.integers(0, 2))] = data.draw(
            st.sampled_from(
                [b"\0", b"\xff", b'"', b"{", b"}", b"[", b"]", b",", b"/*", b"\n", b"\xed\xa0\x80"]
            )
            | st.binary(min_size=1, max_size=2)
        )
    outcome(files, bytes(whole), suffix)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
known = st.sampled_from([*Settings.__struct_fields__, "settings_version", "$schema", "maxSteps"])


@quick
@given(st.dictionaries(known | st.text(), values))
@example({"permissions": {"defaultMode": 1, "mode": 2}})
@example({"settings_version": 2, "permissions": [], "hooks": {"a": [{"hooks": [{}]}]}})
@example({"settings_version": 10**30})
@example({"settings_version": -1})
def test_any_values_for_any_keys(files: Files, data: dict[str, Any]) -> None:
    outcome(files, json.dumps(data).encode(), ".json")


HOSTILE = {
    "nested": b"[" * 100_000,
    "nested objects": b'{"a":' * 50_000,
    "nested under a key": b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "comments": b"/*" * 100_000,
    "comment stars": b"/" + b"*" * 200_000,
    "quotes": b'"' * 100_001,
    "backslashes": b'{"a": "' + b"\\" * 100_001,
    "NULs": b"\0" * 1000,
    "NUL in a text": b'{"model": "a\0b"}',
    "BOM twice": b"\xef\xbb\xbf\xef\xbb\xbf{}",
    "UTF-16": '{"model": "a"}'.encode("utf-16"),
    "long number": b'{"max_steps": ' + b"9" * 5000 + b"}",
    "huge exponent": b'{"max_cost_usd": 1e999}',
    "NaN": b'{"max_cost_usd": NaN}',
    "lone surrogate": b'{"model": "\\ud800"}',
    "surrogate bytes": b'{"model": "\xed\xa0\x80"}',
    "duplicate keys": b'{"permissions": {"deny": ["Bash"]}, "permissions": {}}',
    "duplicate by escape": b'{"model": "a", "mod\\u0065l": "b"}',
    "too large": b" " * ((1 << 20) + 1),
    "a list": b"[]",
    "a number": b"1",
    "toml nested": b"a = " + b"[" * 20_000,
    "toml long number": b"max_steps = " + b"9" * 5000,
    "toml infinite": b"max_cost_usd = inf",
    "toml duplicate": b"model = 'a'\nmodel = 'b'\n",
    "toml date": b"model = 1979-05-27\n",
    "toml time": b"theme = 07:32:00\n",
    "toml header": b"[" + b"a." * 20_000 + b"b]\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_with_a_place(files: Files, name: str) -> None:
    suffix = ".toml" if name.startswith("toml") else ".json"
    assert isinstance(outcome(files, HOSTILE[name], suffix), SettingsError)


def test_what_is_twice_in_an_object_is_named(files: Files) -> None:
    files.user('{\n "permissions": {"deny": ["Bash"]},\n "permissions": {}\n}')
    with pytest.raises(
        SettingsError, match=r'settings\.json:3:2: the key "permissions" stands twice'
    ):
        files.loaded()


def test_a_megabyte_of_unknown_keys_is_read(files: Files) -> None:
    many = {f"key{number}": ["x"] * 3 for number in range(30_000)}
    data = json.dumps({**many, "model": "a"}).encode()
    loaded = outcome(files, data[: 1 << 20], ".json")
    assert isinstance(loaded, Loaded)
    assert loaded.settings.model == "a"


@pytest.mark.parametrize("kind", ["pipe", "directory", "link to itself", "device"])
def test_what_is_no_file_is_refused_at_once(files: Files, kind: str) -> None:
    path = files.home / "settings.json"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "device":
            path.symlink_to("/dev/zero")
        case _:
            path.symlink_to(path)
    with pytest.raises(SettingsError, match=r"settings\.json:1:1"):
        files.loaded()


def test_a_link_to_nothing_sets_nothing(files: Files) -> None:
    (files.home / "settings.json").symlink_to(files.home / "nowhere")
    assert files.loaded().settings == Settings()


# --- what is read is what was written, and each place is right ---------------------------------

plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**15), 10**15)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(value=plain, indent=st.sampled_from([None, 0, 2]), is_ascii=st.booleans())
def test_plain_json_is_read_as_the_standard_library_reads_it(
    value: Any, indent: int | None, *, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    reader = JsonReader(text)
    assert reader.read() == value
    for path, spot in reader.spots.items():
        found = value
        for part in path:
            found = found[part]
        assert json.loads(text[spot.start : spot.end]) == found
        if path and isinstance(path[-1], str):
            assert json.JSONDecoder().raw_decode(text, spot.key)[0] == path[-1]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet='{}[]",:/*\\\n 0123456789.eE+-truefalsn\x00\ufeff\ud800'))
def test_no_text_is_read_otherwise_than_the_standard_library_or_refused(text: str) -> None:
    try:
        value = JsonReader(text).read()
    except TextError as error:
        offset = error.offset
    else:
        offset = 0
        with contextlib.suppress(ValueError):  # of comments, trailing commas, nothing at all
            assert value == json.loads(text)
    assert 0 <= offset <= len(text)


@pytest.mark.parametrize("text", ['{"a": 1,}', "[1, 2,]", "// x\n1", "/* x */ [ /* y */ ] // z"])
def test_comments_and_trailing_commas_are_fine(text: str) -> None:
    JsonReader(text).read()


@pytest.mark.parametrize(
    "text", ["[,]", "{,}", "[1,,2]", "{'a': 1}", "{a: 1}", "[1 2]", "01", "+1"]
)
def test_nothing_else_is(text: str) -> None:
    with pytest.raises(TextError):
        JsonReader(text).read()


def test_every_place_in_toml_is_right() -> None:
    text = TOML.decode()
    data, spots = read_text(text, is_toml=True)
    assert data == tomllib.loads(text)
    paths = {
        ("model",): "model",
        ("permissions", "allow"): "permissions.allow",
        ("permissions", "allow", 1): "'Read'",
        ("permissions", "allow", 2): "'''Edit'''",
        ("permissions", "allow", 3): '"""Write"""',
        ("mcp_servers", "one two"): "[mcp_servers",
        ("mcp_servers", "one two", "command"): "command",
        ("mcp_servers", "one two", "env", "A"): "A =",
        ("hooks", "Stop", 0, "hooks", 0, "command"): "command",
        ("hooks", "Stop", 1, "matcher"): "matcher",
        ("memory", "enabled"): "enabled",
    }
    for path, wanted in paths.items():
        assert text.startswith(wanted, spots[path].key), path
    assert text[spots[("mcp_servers", "one two", "env")].start :].startswith("{A")


def test_an_error_in_toml_has_its_place_also_below_a_table(files: Files) -> None:
    files.user('[permissions]\nallow = [\n  "Read",\n  7,\n]\n', ".toml")
    with pytest.raises(
        SettingsError, match=r"settings\.toml:4:3: permissions\.allow\[1\]"
    ) as caught:
        files.loaded()
    assert (caught.value.expected, caught.value.found) == ("a text", "7")


def test_a_source_by_itself_is_not_there_without_a_file(tmp_path: Path) -> None:
    assert read_source("user", tmp_path, "settings") is None
