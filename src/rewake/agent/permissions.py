"""What the agent may do without asking, what it asks, and what it never does.

The rule kept here: a deny rule wins over everything, the mode included; after that the mode, the
allow rules and what the user answers decide, in that order, and what nobody allowed is denied with
a sentence on how to allow it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from rewake.agent.ports import Prepared, Ruling, Tool
from rewake.agent.rules import Rule, allowed_by_any, parse_rule, simple_parts
from rewake.model.events import FileChangeIntent

PermissionMode = Literal["default", "acceptEdits", "plan", "bypass"]
Answer = Literal["yes", "always", "no"]

# Who can write these can make Git or Rewake itself run or allow anything, so no blanket rule and no
# mode but `bypass` covers them.
_EDITING: Final = frozenset({"Edit", "Write"})
_PROTECTED: Final = (".git", ".rewake")
# Programs whose second word says which of their many uses is meant, and second words that don't.
_PROGRAMS: Final = frozenset(
    {
        "bun",
        "cargo",
        "docker",
        "dotnet",
        "gh",
        "git",
        "go",
        "kubectl",
        "npm",
        "pip",
        "pnpm",
        "poetry",
    }
    | {"ruff", "uv", "yarn"}
)
_RUNS_ANYTHING: Final = frozenset({"config", "dlx", "exec", "run", "x"})
_INSTALLERS: Final = "add ci create explore i init install link rebuild set start update upgrade"
# Subcommands that run what an argument, or a package that an argument names, says.
_RUNS_ANYTHING_OF: Final = {
    program: frozenset(subcommands.split())
    for program, subcommands in {
        "bun": f"{_INSTALLERS} build",
        "cargo": "add install",
        "docker": "build buildx compose create start",
        "dotnet": "add build msbuild publish restore test tool",
        "gh": "alias api codespace extension repo",
        "git": "archive bisect clone credential daemon difftool fetch filter-branch grep"
        " hook ls-remote mergetool pull push rebase remote send-email submodule worktree",
        "go": "build env generate get install list test tool vet work",
        "kubectl": "apply cp create debug edit plugin",
        "npm": f"{_INSTALLERS} edit install-ci-test install-test it",
        "pip": "download install wheel",
        "pnpm": f"{_INSTALLERS} import",
        "poetry": "add build install self sync update",
        "uv": "add build init lock pip sync tool",
        "yarn": f"{_INSTALLERS} node plugin workspace workspaces",
    }.items()
}
_SUBCOMMAND_CHARS: Final = frozenset("abcdefghijklmnopqrstuvwxyz-")


@dataclass(frozen=True, slots=True)
class Question:
    """What to show the user: the call, its preview, and the rule that "always" would add.

    `asker` names the sub-agent that asks, empty for the agent itself.
    """

    tool_name: str
    summary: str
    preview: str
    rule: str
    asker: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A "no" with the user's words on what to do instead, which the model is told."""

    reason: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """The call may run. `why` names the rule, the mode or the answer."""

    why: str


@dataclass(frozen=True, slots=True)
class Denied:
    """The call must not run; `reason` is told to the model and to the user."""

    reason: str


Ask = Callable[[Question], Answer | Refusal]


class Permissions:
    """Decides on prepared calls. Rules that the user adds by "always" hold for this object's life.

    `ask` is None without a terminal. It may block; call `decide` in a thread where that matters. Of
    agents that ask at the same time one is heard after the other.
    Raises SettingsError for a rule that can't be read.
    """

    def __init__(
        self,
        mode: PermissionMode = "default",
        allow: Iterable[str] = (),
        deny: Iterable[str] = (),
        ask: Ask | None = None,
    ) -> None:
        self.mode = mode
        self._allow = [parse_rule(rule) for rule in allow]
        self._deny = [parse_rule(rule) for rule in deny]
        self._ask = ask
        self._asking = threading.Lock()

    def decide(
        self, tool: Tool, prepared: Prepared, ruling: Ruling | None = None, asker: str = ""
    ) -> Allowed | Denied:
        """Whether the call may run, asking the user if nothing else decides.

        A guard's `ruling` goes before modes and rules that allow, not before what denies. `asker`
        names the sub-agent whose call it is.
        """
        decided = self._without_asking(tool, prepared, ruling)
        if decided is not None:
            return decided
        with self._asking:
            # Who was asked before may have said something that decides this, too.
            decided = self._without_asking(tool, prepared, ruling)
            if decided is not None:
                return decided
            return self._answer(tool.spec.name, prepared, asker)

    def _without_asking(
        self, tool: Tool, prepared: Prepared, ruling: Ruling | None
    ) -> Allowed | Denied | None:
        name = tool.spec.name
        forbidding = self._forbidding(name, prepared.subject)
        if forbidding is not None:
            return Denied(
                f"The rule {forbidding} forbids this call. Find another way or ask the user."
            )
        by_mode = self._by_mode(tool, prepared)
        must_ask = ruling is not None and ruling.decision == "ask"
        if by_mode is not None and not (must_ask and isinstance(by_mode, Allowed)):
            return by_mode
        if ruling is not None and not must_ask and not _is_protected(prepared):
            return Allowed(ruling.reason)
        by_rule = self._by_rule(name, prepared)
        if by_rule is not None and not must_ask:
            return by_rule
        if self._ask is None:
            return Denied(self._nobody_to_ask(name, _suggested_rule(name, prepared)))
        return None

    @contextmanager
    def also_allowing(self, rules: Iterable[str]) -> Iterator[None]:
        """Let these rules allow as well, for as long as the context lasts."""
        added = [parse_rule(rule) for rule in rules]
        self._allow[:0] = added
        try:
            yield
        finally:
            del self._allow[: len(added)]

    def forbids(self, tool_name: str, subject: str) -> bool:
        """Whether a deny rule speaks of it: for tools that come upon files nobody named."""
        return self._forbidding(tool_name, subject) is not None

    def _forbidding(self, tool_name: str, subject: str) -> Rule | None:
        return next((rule for rule in self._deny if rule.denies(tool_name, subject)), None)

    def _by_mode(self, tool: Tool, prepared: Prepared) -> Allowed | Denied | None:
        mode = self.mode
        if mode == "bypass":
            return Allowed("permission mode bypass")
        if tool.read_only:
            return Allowed("it changes nothing")
        match mode:
            case "plan":
                return Denied(
                    "Permission mode plan only allows looking. Describe what you would change, and "
                    "let the user choose another mode."
                )
            case "acceptEdits":
                is_edit = isinstance(prepared.intent, FileChangeIntent)
                accepted = is_edit and not prepared.is_for_all_projects
                if accepted and not _is_protected(prepared):
                    return Allowed("permission mode acceptEdits")
                return None
            case "default":
                return None
            case _:
                assert_never(mode)

    def _by_rule(self, name: str, prepared: Prepared) -> Allowed | None:
        for rule in self._allow:
            if _is_protected(prepared) and not _names_protected(rule):
                continue
            if rule.allows(name, prepared.subject):
                return Allowed(f"rule {rule}")
        if name == "Bash" and allowed_by_any(self._allow, prepared.subject):
            return Allowed("rules for each part of the command")
        return None

    def _answer(self, name: str, prepared: Prepared, asker: str) -> Allowed | Denied:
        suggested = _suggested_rule(name, prepared)
        if self._ask is None:
            return Denied(self._nobody_to_ask(name, suggested))
        question = Question(name, prepared.summary, prepared.preview, str(suggested), asker)
        answer = self._ask(question)
        if isinstance(answer, Refusal):
            return Denied(f"The user said no: {answer.reason}")
        match answer:
            case "yes":
                return Allowed("the user said yes")
            case "always":
                self._allow.append(suggested)
                return Allowed(f"the user said always: rule {suggested}")
            case "no":
                return Denied("The user said no. Do not try it again; ask what to do instead.")
            case _:
                assert_never(answer)

    def _nobody_to_ask(self, name: str, suggested: Rule) -> str:
        wider = (
            "--permission-mode acceptEdits"
            if name in {"Edit", "Write"}
            else "--permission-mode bypass"
        )
        return (
            f"{name} needs the user's permission, and there is no terminal to ask. To allow it, add "
            f'the rule "{suggested}" to permissions.allow in .rewake/settings.local.json or start with '
            f"{wider}."
        )


def _is_protected(prepared: Prepared) -> bool:
    if not isinstance(prepared.intent, FileChangeIntent):
        return False
    paths = [change.path for change in prepared.intent.changes]
    return any(map(_has_protected_part, paths))


def _names_protected(rule: Rule) -> bool:
    """Whether a rule was plainly written for such files, and not only happens to match them."""
    return rule.what is not None and _has_protected_part(rule.what)


def _has_protected_part(path: str) -> bool:
    return any(part.lower() in _PROTECTED for part in path.split("/"))


def _suggested_rule(name: str, prepared: Prepared) -> Rule:
    """The narrowest rule that spares the user the same question."""
    if name == "Bash":
        return _suggested_for_command(prepared.subject)
    if _is_protected(prepared):
        return Rule(name, _literal(prepared.subject))
    # Leave to keep notes is none to change files, though both are changes of files.
    return Rule("Edit" if name in _EDITING else name)


def _suggested_for_command(command: str) -> Rule:
    """`git commit:*` for a program with subcommands, the command itself for everything else."""
    parts = simple_parts(command) or []
    words = parts[0].split() if len(parts) == 1 else []
    if (
        len(words) > 1
        and words[0] in _PROGRAMS
        and words[1] not in _RUNS_ANYTHING | _RUNS_ANYTHING_OF.get(words[0], frozenset())
        and set(words[1]) <= _SUBCOMMAND_CHARS
        and not words[1].startswith("-")
    ):
        return Rule("Bash", f"{words[0]} {words[1]}:*")
    return Rule("Bash", command.strip())


def _literal(path: str) -> str:
    return "./" + "".join(f"[{char}]" if char in "*?[{" else char for char in path)
