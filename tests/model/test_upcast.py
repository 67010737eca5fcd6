"""Old shapes become new ones step by step."""

from __future__ import annotations

import pytest

from rewake.model.content import JsonObject
from rewake.model.events import SCHEMA_VERSIONS
from rewake.model.upcast import STEPS, upcast


def renamed(payload: JsonObject) -> JsonObject:
    return {"reason": payload["why"]}


def doubled(payload: JsonObject) -> JsonObject:
    return {"reason": payload["reason"] * 2}


TABLE = {("terminal", 1): renamed, ("terminal", 3): doubled}


def test_each_step_is_taken_in_order_and_a_version_without_one_keeps_its_shape() -> None:
    assert upcast("terminal", 1, 4, {"why": "a"}, TABLE) == {"reason": "aa"}
    assert upcast("terminal", 2, 4, {"reason": "a"}, TABLE) == {"reason": "aa"}


def test_the_current_version_is_left_alone() -> None:
    assert upcast("terminal", 4, 4, {"reason": "a"}, TABLE) == {"reason": "a"}


def test_steps_of_other_types_are_not_taken() -> None:
    assert upcast("run", 1, 4, {"why": "a"}, TABLE) == {"why": "a"}


@pytest.mark.parametrize("payload", [{}, {"why": 7}, {"why": None}])
def test_a_payload_that_a_step_cannot_use_is_a_value_error(payload: JsonObject) -> None:
    table = {("terminal", 1): lambda old: {"reason": old["why"].upper()}}
    with pytest.raises(ValueError, match="terminal from version 1"):
        upcast("terminal", 1, 2, payload, table)


@pytest.mark.parametrize("version", [0, -1, -(10**18)])
def test_a_version_below_one_never_was(version: int) -> None:
    with pytest.raises(ValueError, match="version"):
        upcast("terminal", version, 2, {}, TABLE)


def test_every_step_leads_towards_a_version_that_is_current() -> None:
    assert all(1 <= version < SCHEMA_VERSIONS[name] for name, version in STEPS)
