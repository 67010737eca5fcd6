"""Parses ordinary command lines without the command-line library.

The rule kept here: what isn't plainly right is not parsed here at all. The library then has a look
and helps, complains or completes; for what both parse, they agree (tests/cli holds them to it).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rewake.cli.table import COMMANDS, NO_VALUE, ROOT, Command, Option, Value, Values

_WORD: Final = ""  # what stands for an option's name where a word is none's value
_INTEGER: Final = re.compile(r"[0-9]{1,9}")
_NUMBER: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")


def parse(arguments: Sequence[str]) -> tuple[str, Values] | None:
    """The command's name and the values of its options; None for what needs a closer look."""
    if arguments and arguments[0] in COMMANDS:
        command, rest = COMMANDS[arguments[0]], list(arguments[1:])
    else:
        command, rest = ROOT, list(arguments)
    values = _values(command, rest)
    return (command.name, values) if values is not None else None


def _values(command: Command, rest: list[str]) -> Values | None:
    given: dict[str, Value] = {option.name: default_of(option) for option in command.options}
    words: list[str] = []
    while rest:
        found = _take(command, rest)
        if found is None:
            return None
        name, value = found
        if name == _WORD:
            words.append(str(value))
        else:
            given[name] = value
    return Values(given) if _place(command, words, given) else None


def _place(command: Command, words: list[str], given: dict[str, Value]) -> bool:
    """Give the command's arguments their words; False where these don't fit."""
    first, second = command.argument, command.second
    if not words:
        return first is None or not first.is_required
    if first is None or (first.choices and words[0] not in first.choices):
        return False
    given[first.name], *rest = words
    if rest:
        if second is None or (len(rest) > 1 and not second.may_repeat):
            return False
        given[second.name] = tuple(rest) if second.may_repeat else rest[0]
    return True


def _take(command: Command, rest: list[str]) -> tuple[str, Value] | None:
    """The next option with its value (of an option given twice the last counts), or a word."""
    word = rest.pop(0)
    name, equals, text = word.partition("=")
    for option in command.options:
        if word == option.negation:
            return option.name, False
        if name not in option.flags:
            continue
        if option.kind == "flag":
            return None if equals else (option.name, True)
        if equals and not name.startswith("--"):
            return None
        value = _value(option, text if equals else _next(option, rest, command))
        return None if value is None else (option.name, value)
    return None if word.startswith("-") else (_WORD, word)


def default_of(option: Option) -> Value:
    """What an option that wasn't given is."""
    return bool(option.default) if option.kind == "flag" else option.default


def _next(option: Option, rest: list[str], command: Command) -> str | None:
    if option.may_be_bare and (not rest or is_option(rest[0], command)):
        return NO_VALUE
    return rest.pop(0) if rest else None


def is_option(word: str, command: Command = ROOT) -> bool:
    """Whether a word is one of the command's options, so that it can't be another one's value.

    Anything else may be: a prompt or a title may begin with a dash.
    """
    name = word.partition("=")[0]
    return name in {"-h", "--help"} or any(name in option.flags for option in command.options)


def _value(option: Option, text: str | None) -> Value:
    """The value in `text`; None for what is no such value."""
    if text is None or (option.choices and text not in option.choices):
        return None
    match option.kind:
        case "text" | "flag":
            return text
        case "path":
            return Path(text)
        case "integer":
            return _at_least(int(text) if _INTEGER.fullmatch(text) else None, option)
        case "number":
            return _at_least(float(text) if _NUMBER.fullmatch(text) else None, option)


def _at_least(value: float | None, option: Option) -> float | None:
    if value is None or (option.least is not None and value < option.least):
        return None
    return value


def regular(arguments: Sequence[str]) -> list[str]:
    """`arguments` with an empty value for each option of the root that has none, for the library."""
    if arguments and arguments[0] in COMMANDS:
        return list(arguments)
    bare = {flag for option in ROOT.options if option.may_be_bare for flag in option.flags}
    found: list[str] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        found.append(word)
        if word in bare:
            found.append(NO_VALUE if not rest or is_option(rest[0]) else rest.pop(0))
    return found
