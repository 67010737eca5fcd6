"""A change of a text changes that and nothing else."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewake.errors import SettingsError
from rewake.settings.edit import Edit, applied, difference, edited
from rewake.settings.jsonc import JsonReader

SAMPLE = """{
  // my model
  "model": "a", // trailing
  "permissions": {
    "allow": ["Read"], /* over
     two lines */
    "deny": [
      "Bash(rm:*)" // never
    ]
  }
  // end
}
"""


def test_a_value_is_replaced_where_it_stands() -> None:
    changed = edited(SAMPLE, [Edit("put", ("model",), "b")], is_toml=False)
    assert changed == SAMPLE.replace('"a"', '"b"')


def test_a_new_member_stands_behind_the_last_with_its_comment() -> None:
    changed = edited(SAMPLE, [Edit("put", ("max_steps",), 5)], is_toml=False)
    assert changed == SAMPLE.replace("  }\n  // end", '  },\n  "max_steps": 5\n  // end')


def test_an_item_is_added_on_a_line_of_its_own_where_others_are() -> None:
    changed = edited(SAMPLE, [Edit("add", ("permissions", "deny"), "X")], is_toml=False)
    assert '"Bash(rm:*)", // never\n      "X"\n    ]' in changed


def test_a_removed_member_takes_its_line_along_and_no_comment() -> None:
    changed = edited(SAMPLE, [Edit("remove", ("permissions", "allow"))], is_toml=False)
    assert "Read" not in changed
    assert "/* over\n     two lines */" in changed
    assert JsonReader(changed).read() == {"model": "a", "permissions": {"deny": ["Bash(rm:*)"]}}


def test_a_key_is_renamed_where_it_stands() -> None:
    changed = edited(SAMPLE, [Edit("rename", ("permissions", "allow"), "ok")], is_toml=False)
    assert changed == SAMPLE.replace('"allow"', '"ok"')


def test_what_is_there_already_changes_nothing() -> None:
    edits = [
        Edit("put", ("model",), "a"),
        Edit("add", ("permissions", "allow"), "Read"),
        Edit("take", ("permissions", "deny"), "Write"),
        Edit("remove", ("nothing", "here")),
    ]
    assert edited(SAMPLE, edits, is_toml=False) == SAMPLE


@pytest.mark.parametrize("text", ["", "\n", "// only a comment\n", "{}", "{\n}\n", "{ /* x */ }"])
def test_an_empty_file_becomes_an_object(text: str) -> None:
    changed = edited(text, [Edit("add", ("permissions", "allow"), "Read")], is_toml=False)
    assert JsonReader(changed).read() == {"permissions": {"allow": ["Read"]}}
    assert all(comment in changed for comment in re.findall(r"//.*|/\*.*?\*/", text))


# --- any text and any change -------------------------------------------------------------------

names = st.sampled_from(["a", "b", "permissions", 'q"uote', "ключ"])
scalars = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["x", "//no", '"', "{", ""])
)
data = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=10,
)
objects = st.dictionaries(names, data, max_size=4)
spaces = st.sampled_from(["", " ", "\n", "\n  ", "\t", "\r\n"])


def laid_out(draw: Any, value: Any, comments: list[str]) -> str:
    """The value as JSON with space, comments and trailing commas wherever they may stand."""

    def gap() -> str:
        made = str(draw(spaces))
        match draw(st.integers(0, 5)):
            case 0:
                comments.append(f"/* c{len(comments)} , }} */")
                made += comments[-1] + str(draw(spaces))
            case 1:
                comments.append(f"// c{len(comments)} ] ,")
                made += comments[-1] + "\n"
        return made

    def parts(items: list[str], opening: str, closing: str) -> str:
        inside = ",".join(gap() + item + gap() for item in items)
        tail = f",{gap()}" if items and draw(st.booleans()) else gap()
        return f"{opening}{inside}{tail}{closing}"

    if isinstance(value, dict):
        return parts(
            [
                f"{json.dumps(name)}{gap()}:{gap()}{laid_out(draw, one, comments)}"
                for name, one in value.items()
            ],
            "{",
            "}",
        )
    if isinstance(value, list):
        return parts([laid_out(draw, one, comments) for one in value], "[", "]")
    return json.dumps(value, ensure_ascii=False)


@st.composite
def edits(draw: Any) -> Edit:
    path = tuple(draw(st.lists(names, min_size=1, max_size=3)))
    match draw(st.sampled_from(["put", "remove", "add", "take", "rename"])):
        case "put":
            return Edit("put", path, draw(data))
        case "remove":
            return Edit("remove", path)
        case "rename":
            return Edit("rename", path, "new name")
        case "add":
            return Edit("add", path, draw(scalars))
        case _:
            return Edit("take", path, draw(scalars))


@settings(max_examples=400, deadline=None)
@given(objects, edits(), st.data())
def test_any_change_of_any_layout_is_exactly_that_change(
    before: dict[str, Any], edit: Edit, drawn: st.DataObject
) -> None:
    comments: list[str] = []
    text = laid_out(drawn.draw, before, comments)
    target = _at(before, edit.path)
    if edit.kind in {"add", "take"} and not isinstance(target, list | None):
        with pytest.raises(SettingsError, match="is no list"):
            applied(before, edit)
        return
    wanted = applied(before, edit)
    changed = edited(text, [edit], is_toml=False)
    assert JsonReader(changed).read() == wanted
    assert edited(changed, [edit], is_toml=False) == changed or edit.kind == "rename"
    if wanted == before:
        assert changed == text
    if edit.kind in {"add", "rename"} and edit.path in JsonReader(text).spots | {edit.path: None}:
        gone = [comment for comment in comments if comment not in changed]
        replaced = not isinstance(_at(before, edit.path), list | dict)
        assert not gone or replaced


def _at(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


@settings(max_examples=200, deadline=None)
@given(objects, objects)
def test_the_difference_of_two_leads_from_one_to_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    found = before
    for edit in difference(before, after):
        found = applied(found, edit)
    assert found == after
    text = json.dumps(before, indent=2)
    assert JsonReader(edited(text, difference(before, after), is_toml=False)).read() == after


# --- TOML --------------------------------------------------------------------------------------

TOML = """# mine
model = "a" # now
permissions.allow = [
  "Read", # looking
]

[memory]
# on
enabled = true
"""


@pytest.mark.parametrize(
    "edit",
    [
        Edit("put", ("model",), "b"),
        Edit("put", ("max_steps",), 3),
        Edit("put", ("memory", "recall"), False),
        Edit("put", ("mcp_servers", "a.b", "command"), "x"),
        Edit("add", ("permissions", "allow"), "Edit"),
        Edit("take", ("permissions", "allow"), "Read"),
        Edit("add", ("permissions", "deny"), "Edit"),
        Edit("remove", ("memory", "enabled")),
        Edit("remove", ("permissions",)),
        Edit("rename", ("model",), "models"),
    ],
    ids=lambda edit: f"{edit.kind} {'.'.join(edit.path)}",
)
def test_a_change_of_toml_keeps_comments(edit: Edit) -> None:
    changed = edited(TOML, [edit], is_toml=True)
    assert tomllib.loads(changed) == applied(tomllib.loads(TOML), edit)
    assert "# mine" in changed
    assert "# on" in changed


def test_what_would_lose_the_layout_is_refused() -> None:
    with pytest.raises(SettingsError, match="changed in place"):
        edited("model = 'a'\n", [Edit("put", ("model",), None)], is_toml=True)
