"""Permission rules: `Tool` or `Tool(what)`, and whether a call is what a rule speaks of.

The rules kept here:

- A rule that allows is read narrowly. A shell command counts as a rule's prefix only if every part
  of it does and nothing in it could run, write or hide anything else: no substitution, redirection,
  assignment or grouping. In doubt it doesn't match.
- A rule that denies is read widely: any part of a command, also inside quotes and substitutions.

They guard against mistakes. What a command does once it runs is not confined by them.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Final

from rewake.agent.tools.walk import name_pattern
from rewake.errors import SettingsError

# Rules for Edit hold for every tool that changes files, those for Read for every tool that reads.
_COVERED: Final = {
    "Edit": frozenset({"Edit", "Write"}),
    "Read": frozenset({"Read", "Grep", "Glob"}),
}
_RULE: Final = re.compile(r"(?P<tool>[\w.:*-]+)(?:\((?P<what>.*)\))?", re.DOTALL)
_PREFIX_MARK: Final = ":*"
_MCP: Final = "mcp__"
# Words before the command proper; what follows them is what runs.
_WRAPPERS: Final = frozenset(
    {
        "builtin",
        "command",
        "doas",
        "env",
        "exec",
        "nice",
        "nohup",
        "setsid",
        "stdbuf",
        "sudo",
        "time",
    }
    | {"timeout", "xargs", "then", "do", "else", "elif", "if", "while", "until", "!", "{", "eval"}
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*\+?=")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `what` is None where it speaks of every call of the tool."""

    tool: str
    what: str | None = None

    def __str__(self) -> str:
        return self.tool if self.what is None else f"{self.tool}({self.what})"

    def allows(self, tool: str, subject: str) -> bool:
        """Whether a call of `tool` on `subject` is certainly what this rule speaks of."""
        if not self._covers(tool):
            return False
        if self.what is None:
            return True
        if tool == "Bash":
            return _allows_command(self.what, subject)
        return _matches_path(self.what, subject)

    def denies(self, tool: str, subject: str) -> bool:
        """Whether a call of `tool` on `subject` may be what this rule speaks of."""
        if not self._covers(tool):
            return False
        if self.what is None:
            return True
        if tool == "Bash":
            return _denies_command(self.what, subject)
        # What is in a forbidden directory is forbidden, and a search of one is named by itself.
        return any(
            _matches_path(self.what, place) or _matches_path(self.what, f"{place}/")
            for place in _with_parents(subject)
        )

    def _covers(self, tool: str) -> bool:
        if tool == self.tool or tool in _COVERED.get(self.tool, ()):
            return True
        # `mcp__server` and `mcp__server__*` speak of all tools of that server.
        is_server = self.tool.startswith(_MCP) and "__" not in self.tool.removeprefix(_MCP)
        return is_server and tool.startswith(f"{self.tool}__")


def parse_rule(text: str) -> Rule:
    """A rule as people write it. Raises SettingsError."""
    match = _RULE.fullmatch(text.strip())
    if match is None:
        raise SettingsError(
            f"{text!r} is no permission rule.",
            remedy="Write it as a tool's name or as Tool(what), such as Bash(git status:*).",
        )
    what, tool = match["what"], match["tool"]
    if tool.startswith(_MCP):
        if what is not None:
            raise SettingsError(
                f"The permission rule {text!r} can't be used: rules for MCP tools say no more than "
                "the tool.",
                remedy="Write it as mcp__SERVER or mcp__SERVER__TOOL.",
            )
        tool = tool.removesuffix("__*")
    if what is not None and tool != "Bash":
        try:
            name_pattern(what)
        except ValueError as error:
            raise SettingsError(
                f"The permission rule {text!r} can't be used: {error}.",
                remedy="Use a path or a pattern such as src/**.",
            ) from error
    # As in other agents, `Bash()`, `Bash(*)` and `Bash` all mean every command.
    return Rule(tool, None if what in {"", "*", "**"} else what)


def _with_parents(path: str) -> list[str]:
    """The path and the directories that it is in, as far as it names them."""
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _matches_path(pattern: str, path: str) -> bool:
    if path.startswith("/") and not pattern.startswith(("/", "**")) and "/" in pattern:
        return False  # outside of the project, and the rule speaks of the project
    if "/" not in pattern and not any(char in pattern for char in "*?[{"):
        pattern = f"./{pattern}"  # a plain name is that file, not any file of the name
    return name_pattern(pattern).match(path.lstrip("/")) is not None


# --- shell commands, read narrowly -----------------------------------------------------------


def _allows_command(what: str, command: str) -> bool:
    if not what.endswith(_PREFIX_MARK):
        return command.strip() == what.strip()
    parts = simple_parts(command) or []
    return bool(parts) and all(_has_prefix(part, what) for part in parts)


def allowed_by_any(rules: list[Rule], command: str) -> bool:
    """Whether each part of a compound command is allowed by one of the rules."""
    what = [rule.what for rule in rules if rule.tool == "Bash" and rule.what is not None]
    parts = simple_parts(command)
    if not parts:
        return False
    return all(
        any(_has_prefix(part, one) if one.endswith(_PREFIX_MARK) else part == one for one in what)
        for part in parts
    )


def _has_prefix(part: str, what: str) -> bool:
    """Whether a simple command begins with the words of `what`, which ends with `:*`."""
    prefix = what.removesuffix(_PREFIX_MARK)
    return part == prefix or part.startswith((f"{prefix} ", f"{prefix}\t"))


def simple_parts(command: str) -> list[str] | None:
    """The commands joined by `;`, `&`, `|` and newlines; None if there is more to it than that.

    Understands quotes. Everything with which a shell can run or write something out of sight makes
    it None: `$( )` and `${ }`, backticks, redirections, groups, functions, backslashes outside of
    single quotes, and comments. (Assignments and keywords stand first, where no rule's prefix is.)
    """
    parts: list[str] = []
    current: list[str] = []
    quote = ""
    for char in command:
        if quote == "'":
            quote = "" if char == "'" else quote
        elif char in "`$\\":
            return None
        elif quote:
            quote = "" if char == '"' else quote
        elif char in "'\"":
            quote = char
        elif char in "<>(){}#!\r\0":
            return None
        elif char in ";&|\n":
            parts.append("".join(current))
            current = []
            continue
        current.append(char)
    if quote:
        return None
    parts.append("".join(current))
    return [part.strip() for part in parts if part.strip()]


# --- shell commands, read widely -------------------------------------------------------------


def _denies_command(what: str, command: str) -> bool:
    wanted = _words(what.removesuffix(_PREFIX_MARK))
    if not wanted:
        return False
    whole = not what.endswith(_PREFIX_MARK)
    for part in re.split(r"[;&|\n(){}`<>]|\$\(", command):
        words = _without_wrappers(_words(part))
        if words == wanted or (not whole and words[: len(wanted)] == wanted):
            return True
    # Quoted commands, such as those of `sh -c '…'`, are commands too.
    inner = [word for word in _words(command) if word != command and re.search(r"\s", word)]
    return any(_denies_command(what, word) for word in inner)


def _words(text: str) -> list[str]:
    """Words as the shell would see them, as far as they can be told."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.replace('"', "").replace("'", "").replace("\\", "").split()
    return words


def _without_wrappers(words: list[str]) -> list[str]:
    rest = list(words)
    while rest and (rest[0] in _WRAPPERS or _ASSIGNMENT.match(rest[0]) or _is_option(rest, words)):
        rest.pop(0)
    if rest:
        rest[0] = rest[0].rpartition("/")[2]
    return rest


def _is_option(rest: list[str], words: list[str]) -> bool:
    """An option or a number of a wrapper (`timeout -k 5 10 rm`), which stands before the command."""
    return len(rest) < len(words) and (rest[0].startswith("-") or rest[0][:1].isdigit())
