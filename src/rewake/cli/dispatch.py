"""From parsed values to the function that does the work; each command is imported when it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from rewake.cli.table import NO_VALUE, Values
from rewake.errors import UsageError
from rewake.version import VERSION

if TYPE_CHECKING:
    from rewake.cli.options import AgentChoices, Mode, OnRunning, OnUnknown, OutputFormat
    from rewake.compose.archives import Form

_NEWEST: Final = "newest"  # compose.place.NEWEST, which is slow to import


def run_command(name: str, values: Values) -> int:
    """Do what was asked; returns the exit status. Raises RewakeError."""
    return _COMMANDS[name](values)


def _sessions(values: Values) -> int:
    from rewake.cli.sessions import list_sessions

    return list_sessions(
        values.path("cwd"),
        as_json=values.flag("json"),
        everywhere=values.flag("everywhere"),
        limit=values.integer("limit"),
    )


def _path(values: Values) -> int:
    from rewake.cli.path import show_path

    return show_path(_session(values), values.path("cwd"), as_json=values.flag("json"))


def _commands(values: Values) -> int:
    from rewake.cli.commands import only_one, show_commands, show_output, stop_command

    session = values.text("session") or _NEWEST
    cwd, as_json = values.path("cwd"), values.flag("json")
    output, stop = values.text("output"), values.text("stop")
    only_one(output, stop)
    if output is not None:
        return show_output(session, output, cwd, as_json=as_json)
    if stop is not None:
        return stop_command(session, stop, cwd, as_json=as_json)
    return show_commands(session, cwd, as_json=as_json)


def _trace(values: Values) -> int:
    from rewake.cli.trace import send_trace, show_trace

    session, cwd, as_json = _session(values), values.path("cwd"), values.flag("json")
    endpoint = values.text("send")
    if endpoint is None:
        if values.flag("content"):
            raise UsageError("Nothing is sent.", remedy="Add --send.")
        return show_trace(session, cwd, as_json=as_json)
    content = values.flag("content")
    return send_trace(session, cwd, endpoint=endpoint or None, content=content, as_json=as_json)


def _show(values: Values) -> int:
    if values.flag("tree"):
        from rewake.cli.tree import show_tree

        agent = values.text("agent")
        as_json = values.flag("json")
        return show_tree(_session(values), values.path("cwd"), agent, as_json=as_json)
    from rewake.cli.show import show_session

    return show_session(
        _session(values),
        values.path("cwd"),
        as_json=values.flag("json"),
        only_memory=values.flag("memory"),
        agent=values.text("agent"),
    )


def _agents(values: Values) -> int:
    from rewake.cli.agents import list_agents, list_types

    cwd, as_json = values.path("cwd"), values.flag("json")
    if values.flag("types"):
        return list_types(cwd, as_json=as_json)
    return list_agents(values.text("session"), cwd, as_json=as_json)


def _rewind(values: Values) -> int:
    from rewake.cli.rewind import RewindChoices, rewind_session

    only = values.text("only")
    choices = RewindChoices(
        conversation=values.flag("conversation"),
        files=values.flag("files"),
        both=values.flag("both"),
        dry_run=values.flag("dry_run"),
        force=values.flag("force"),
        only=(*(() if only is None else (only,)), *values.texts("more")),
        undo=values.flag("undo"),
    )
    if only is None and values.texts("more"):
        raise UsageError(
            "There are more words than this command takes.", remedy="Name paths with --only."
        )
    return rewind_session(
        _session(values),
        values.text("to"),
        values.path("cwd"),
        choices,
        as_json=values.flag("json"),
    )


def _diff(values: Values) -> int:
    from rewake.cli.diff import DiffChoices, show_diff

    choices = DiffChoices(
        since=values.text("since"),
        until=values.text("until"),
        call=values.text("call"),
        stat=values.flag("stat"),
    )
    return show_diff(_session(values), values.path("cwd"), choices, as_json=values.flag("json"))


def _resolve(values: Values) -> int:
    from rewake.cli.resolve import resolve_call

    return resolve_call(
        _session(values),
        values.text("call"),
        values.text("verdict"),
        values.path("cwd"),
        note=values.text("note"),
        as_json=values.flag("json"),
    )


def _browse(values: Values) -> int:
    from rewake.cli.browse import browse_sessions

    return browse_sessions(values.path("cwd"), everywhere=values.flag("everywhere"))


def _title(values: Values) -> int:
    from rewake.cli.labels import title_session

    title, model, cwd = values.text("title"), values.text("model"), values.path("cwd")
    if values.flag("generate"):
        if title is not None:
            raise UsageError("The title is given already.", remedy="Leave it out with --generate.")
        from rewake.cli.titling import generate_title

        return generate_title(_session(values), model, cwd, as_json=values.flag("json"))
    if model is not None:
        raise UsageError("--model is for --generate.", remedy="Add --generate, or leave it out.")
    return title_session(_session(values), title, cwd, as_json=values.flag("json"))


def _tag(values: Values) -> int:
    from rewake.cli.labels import tag_session

    return tag_session(
        _session(values),
        values.texts("tags"),
        values.path("cwd"),
        remove=values.flag("remove"),
        as_json=values.flag("json"),
    )


def _search(values: Values) -> int:
    from rewake.cli.search import SearchChoices, search

    choices = SearchChoices(
        everywhere=values.flag("everywhere"),
        since=values.text("since"),
        until=values.text("until"),
        tag=values.text("tag"),
        tool=values.text("tool"),
        file=values.text("file"),
        limit=values.integer("limit"),
    )
    query = values.text("query") or ""
    return search(query, values.path("cwd"), choices, as_json=values.flag("json"))


def _reindex(values: Values) -> int:
    from rewake.cli.reindex import reindex_sessions

    return reindex_sessions(
        values.path("cwd"), everywhere=values.flag("everywhere"), as_json=values.flag("json")
    )


def _check(values: Values) -> int:
    from rewake.cli.check import check_sessions

    return check_sessions(
        values.text("session"),
        values.path("cwd"),
        everything=values.flag("everything"),
        deep=values.flag("deep"),
        as_json=values.flag("json"),
    )


def _repair(values: Values) -> int:
    from rewake.cli.repair import repair_session

    return repair_session(
        values.text("session"),
        values.path("cwd"),
        dry_run=values.flag("dry_run"),
        as_json=values.flag("json"),
    )


def _export(values: Values) -> int:
    from rewake.cli.export import export_session

    return export_session(
        _session(values),
        values.path("output"),
        values.path("cwd"),
        form=cast("Form", values.text("format") or "archive"),
        redact=values.flag("redact"),
        as_json=values.flag("json"),
    )


def _report(values: Values) -> int:
    from rewake.cli.report import report_session

    return report_session(
        _session(values),
        values.path("output"),
        values.path("cwd"),
        redact=values.flag("redact"),
        force=values.flag("force"),
        open_=values.flag("open"),
        as_json=values.flag("json"),
    )


def _view(values: Values) -> int:
    from rewake.cli.view import view_sessions

    return view_sessions(
        values.text("session"),
        values.path("cwd"),
        port=values.integer("port") or 0,
        open_=values.flag("open"),
        redact=values.flag("redact"),
    )


def _import(values: Values) -> int:
    from rewake.cli.import_ import import_archive

    return import_archive(
        values.text("file") or "",
        values.path("cwd"),
        new_id=values.text("as_id"),
        as_json=values.flag("json"),
    )


def _delete(values: Values) -> int:
    from rewake.cli.delete import delete_sessions

    wanted = (_session(values), *values.texts("more"))
    return delete_sessions(wanted, values.path("cwd"), as_json=values.flag("json"))


def _trash(values: Values) -> int:
    from rewake.cli.trash import trash

    return trash(
        values.text("action") or "list",
        values.text("session"),
        older_than=values.text("older_than"),
        yes=values.flag("yes"),
        as_json=values.flag("json"),
    )


def _gc(values: Values) -> int:
    from rewake.cli.gc import Choices, gc

    choices = Choices(
        everywhere=values.flag("everywhere"),
        older_than=values.text("older_than"),
        quota=values.text("quota"),
        dry_run=values.flag("dry_run"),
        yes=values.flag("yes"),
    )
    return gc(values.path("cwd"), choices, as_json=values.flag("json"))


def _instructions(values: Values) -> int:
    from rewake.cli.instructions import show_instructions

    return show_instructions(values.text("path"), values.path("cwd"), as_json=values.flag("json"))


def _memory(values: Values) -> int:
    from rewake.cli.memory import MemoryChoices, memory

    choices = MemoryChoices(
        scope=values.text("scope"),
        file=values.text("file"),
        description=values.text("description"),
        kind=values.text("kind"),
        allow_secrets=values.flag("allow_secrets"),
        yes=values.flag("yes"),
        limit=values.integer("limit"),
    )
    return memory(
        values.text("action") or "list",
        values.texts("words"),
        values.path("cwd"),
        choices,
        as_json=values.flag("json"),
    )


def _stats(values: Values) -> int:
    from rewake.cli.stats import show_stats

    return show_stats(
        values.path("cwd"), everywhere=values.flag("everywhere"), as_json=values.flag("json")
    )


def _skills(values: Values) -> int:
    from rewake.cli.skills import list_skills

    return list_skills(values.path("cwd"), as_json=values.flag("json"))


def _config(values: Values) -> int:
    from rewake.cli.config import ConfigChoices, config

    choices = ConfigChoices(
        sources=tuple(name for name in ("user", "project", "local") if values.flag(name)),
        add=values.flag("add"),
        remove=values.flag("remove"),
        everything=values.flag("everything"),
        show=values.flag("show"),
        yes=values.flag("yes"),
        no=values.flag("no"),
        dry_run=values.flag("dry_run"),
        as_json=values.flag("json"),
    )
    words = values.texts("words")
    return config(values.text("action") or "list", words, values.path("cwd"), choices)


def _mcp(values: Values) -> int:
    from rewake.cli.mcp import list_servers

    if values.text("action") not in {None, "list"}:
        raise UsageError(
            f"rewake mcp can't {values.text('action')}.", remedy="It lists the servers: rewake mcp."
        )
    return list_servers(values.path("cwd"), as_json=values.flag("json"))


def _demo(values: Values) -> int:
    from rewake.cli.demo import run_demo

    return run_demo(values.text("model"), keep=values.flag("keep"))


def _session(values: Values) -> str:
    return values.text("session") or ""


def _root(values: Values) -> int:
    if values.flag("version"):
        from rewake.cli.terminal import say

        say(f"rewake {VERSION}")
        return 0
    if values.text("rewind_files") is not None:
        return _rewind_files(values)
    prompt, output = values.text("prompt"), values.text("output_format")
    if values.flag("json") and output not in {None, "json"}:
        raise UsageError(
            f"--json and --output-format {output} exclude each other.", remedy="Give one of them."
        )
    if prompt is not None:
        from rewake.cli.run import run_once

        chosen = output or ("json" if values.flag("json") else "text")
        return run_once(prompt, _choices(values), cast("OutputFormat", chosen))
    if output is not None or values.flag("json"):
        raise UsageError(
            "--json and --output-format belong to -p.", remedy="Give a prompt with -p."
        )
    from rewake.cli.interactive import converse, require_terminal

    require_terminal()
    return converse(_choices(values))


def _rewind_files(values: Values) -> int:
    """`--resume ID --rewind-files MESSAGE`: nothing is asked of a model."""
    from rewake.cli.rewind import RewindChoices, rewind_session

    resume = _resumed(values.text("resume"), values.path("cwd"), newest=values.flag("newest"))
    if resume is None:
        raise UsageError(
            "--rewind-files needs a session.", remedy="Say which one with --resume or --continue."
        )
    return rewind_session(
        resume,
        values.text("rewind_files"),
        values.path("cwd"),
        RewindChoices(files=True),
        as_json=values.flag("json"),
    )


def _choices(values: Values) -> AgentChoices:
    from rewake.cli.options import AgentChoices

    resume = _resumed(values.text("resume"), values.path("cwd"), newest=values.flag("newest"))
    fork, resume_at = values.flag("fork"), values.text("resume_at")
    if resume is not None and values.text("session_id") is not None and not fork:
        raise UsageError(
            "A session is either resumed or given a new id.",
            remedy="Leave out --session-id, or --resume and --continue, or add --fork-session.",
        )
    if resume is None and (fork or resume_at is not None):
        raise UsageError(
            "--fork-session and --resume-session-at need a session.",
            remedy="Say which one with --resume or --continue.",
        )
    with_files = values.path("with_files")
    if with_files is not None and not fork:
        raise UsageError("--with-files is for a fork.", remedy="Add --fork-session.")
    return AgentChoices(
        cwd=values.path("cwd"),
        model=values.text("model"),
        permission_mode=cast("Mode | None", values.text("permission_mode")),
        session_id=values.text("session_id"),
        resume=resume,
        persist=not values.flag("ephemeral"),
        max_steps=values.integer("max_steps"),
        max_cost=values.number("max_cost"),
        on_unknown=cast("OnUnknown", values.text("on_unknown") or "tell"),
        on_running=cast("OnRunning", values.text("on_running") or "leave"),
        fork=fork,
        resume_at=resume_at,
        with_files=with_files,
        demo_project=values.path("demo_project"),
        setting_sources=values.text("setting_sources"),
        settings=values.text("settings"),
    )


def _resumed(resume: str | None, cwd: Path | None, *, newest: bool) -> str | None:
    """What `--resume` and `--continue` mean together; a session is picked where none is named."""
    if newest and resume is not None:
        raise UsageError("--continue and --resume exclude each other.", remedy="Give one of them.")
    if newest:
        return _NEWEST
    if resume != NO_VALUE:
        return resume
    from rewake.cli.picking import pick_session

    return pick_session(cwd)


_COMMANDS: Final[dict[str, Callable[[Values], int]]] = {
    "": _root,
    "sessions": _sessions,
    "path": _path,
    "commands": _commands,
    "trace": _trace,
    "show": _show,
    "agents": _agents,
    "rewind": _rewind,
    "diff": _diff,
    "resolve": _resolve,
    "title": _title,
    "tag": _tag,
    "browse": _browse,
    "search": _search,
    "reindex": _reindex,
    "check": _check,
    "repair": _repair,
    "export": _export,
    "report": _report,
    "view": _view,
    "import": _import,
    "delete": _delete,
    "trash": _trash,
    "gc": _gc,
    "instructions": _instructions,
    "memory": _memory,
    "stats": _stats,
    "skills": _skills,
    "config": _config,
    "mcp": _mcp,
    "demo": _demo,
}
