"""All commands and their options, as data.

The rule kept here: this table is the only place where an option is defined. The quick parser reads
it to start without the command-line library, whose import alone takes as long as a whole command
may; help, errors and shell completion are that library's, built from the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

Kind = Literal["flag", "text", "path", "integer", "number"]
Value = str | Path | int | float | bool | tuple[str, ...] | None

NO_VALUE: Final = ""
"""The value of an option whose value was left out."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option, or the argument of a command when `flags` is empty.

    With `may_be_bare` its value may be left out; `may_repeat` is for an argument that takes all that
    is left. `negation` is the flag that says no to a flag that
    is on by default. `least` is the smallest number allowed. `completes` says what else the shell may
    offer for it.
    """

    name: str
    flags: tuple[str, ...]
    kind: Kind
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default: Value = None
    least: int | None = None
    hidden: bool = False
    may_be_bare: bool = False
    may_repeat: bool = False
    is_required: bool = False
    negation: str | None = None
    completes: Literal["settings"] | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """One command. The root has the empty name."""

    name: str
    help: str
    examples: str
    options: tuple[Option, ...]
    argument: Option | None = None
    second: Option | None = None


@dataclass(frozen=True, slots=True)
class Values:
    """What was given for the options of one command, by option name and of the option's kind."""

    given: Mapping[str, Value] = field(default_factory=dict)

    def flag(self, name: str) -> bool:
        """A flag."""
        return self.given.get(name) is True

    def text(self, name: str) -> str | None:
        """A text or a choice, None where it wasn't given."""
        value = self.given.get(name)
        return value if isinstance(value, str) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """All texts of an argument that may repeat."""
        value = self.given.get(name)
        return value if isinstance(value, tuple) else ()

    def path(self, name: str) -> Path | None:
        """A path, None where it wasn't given."""
        value = self.given.get(name)
        return value if isinstance(value, Path) else None

    def integer(self, name: str) -> int | None:
        """An integer, None where it wasn't given."""
        value = self.given.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def number(self, name: str) -> float | None:
        """A number, None where it wasn't given."""
        value = self.given.get(name)
        return float(value) if isinstance(value, int | float) else None


# --- the commands ----------------------------------------------------------------------------

_CWD: Final = Option("cwd", ("--cwd",), "path", "The project's directory.", "DIR")
_SESSION: Final = Option(
    "session", (), "text", "Id, beginning of an id, title, or newest.", "ID", is_required=True
)
_SUBJECT: Final = Option(
    "session", (), "text", "Id, title or path of a transcript; the newest by default.", "ID"
)
_MODEL_FLAGS: Final = ("-m", "--model")

ROOT: Final = Command(
    name="",
    help="""A coding agent that wakes up where it stopped.

Without options it starts a conversation in the terminal. With -p it answers one prompt and ends.
Everything is recorded as it happens: kill it at any moment and go on with --resume.
""",
    examples="""
Examples:
  rewake                                      talk in the terminal
  rewake -p "Make the tests pass"             one prompt, one answer
  git diff | rewake -p "Review this" --json   piped input, one line of JSON
  rewake -p "" --resume 0199b2c4              go on where a session was cut off
  rewake -c                                   go on with the newest session here
  rewake demo                                 see it killed in an edit and wake up

Exit status:
  0 done         1 failed     2 usage      3 busy      4 not found   5 storage
  6 damaged      7 model      8 uncertain  9 settings  10 limit
  11 unfinished: a check fails, or todos are open
  129 SIGHUP     130 Ctrl-C   143 SIGTERM
""",
    options=(
        Option(
            "prompt",
            ("-p", "--prompt"),
            "text",
            "Answer this prompt and end; - reads it from stdin.",
            "PROMPT",
            may_be_bare=True,
        ),
        Option("json", ("--json",), "flag", "Short for --output-format json: one line on stdout."),
        Option(
            "output_format",
            ("--output-format",),
            "text",
            "What -p prints on stdout.",
            choices=("text", "json", "stream-json"),
        ),
        Option("cwd", ("--cwd",), "path", "Work in this directory.", "DIR"),
        Option(
            "model",
            _MODEL_FLAGS,
            "text",
            "provider:name, local:, local:FILE.gguf or script:FILE.",
            "MODEL",
        ),
        Option(
            "permission_mode",
            ("--permission-mode",),
            "text",
            "What may be done without asking.",
            choices=("default", "acceptEdits", "plan", "bypass"),
        ),
        Option("session_id", ("--session-id",), "text", "The id of the new session.", "ID"),
        Option("newest", ("-c", "--continue"), "flag", "Go on with the newest session here."),
        Option(
            "resume",
            ("-r", "--resume"),
            "text",
            "Go on with a session: id, beginning of an id, or title; alone it lets you pick.",
            "ID",
            may_be_bare=True,
        ),
        Option(
            "resume_at",
            ("--resume-session-at",),
            "text",
            "Resume just after this message; what followed stays as a branch.",
            "MESSAGE",
        ),
        Option(
            "fork",
            ("--fork-session",),
            "flag",
            "Go on in a new session; the one resumed is only read.",
        ),
        Option(
            "with_files",
            ("--with-files",),
            "path",
            "With --fork-session: take the files along, and work in this new directory.",
            "DIR",
        ),
        Option(
            "rewind_files",
            ("--rewind-files",),
            "text",
            "With --resume: take files back to how they were at this message, and end.",
            "MESSAGE",
        ),
        Option("ephemeral", ("--no-session-persistence",), "flag", "Record nothing on disk."),
        Option(
            "max_steps",
            ("--max-steps",),
            "integer",
            "Stop after this many model calls.",
            "N",
            least=1,
        ),
        Option(
            "max_cost",
            ("--max-cost",),
            "number",
            "Stop when this run has cost so many US dollars.",
            "X",
            least=0,
        ),
        Option(
            "on_unknown",
            ("--on-unknown",),
            "text",
            "If no evidence settles an interrupted call: tell the model (default), or stop.",
            choices=("tell", "stop"),
        ),
        Option(
            "on_running",
            ("--on-running",),
            "text",
            "If a command outlived the agent: leave it (default), wait for it, or stop it.",
            choices=("leave", "wait", "stop"),
        ),
        Option(
            "setting_sources",
            ("--setting-sources",),
            "text",
            "Of the settings files, read only these: user,project,local.",
            "LIST",
        ),
        Option(
            "settings",
            ("--settings",),
            "text",
            "Settings for this run, over those of all files: a file, or JSON.",
            "FILE|JSON",
        ),
        Option("demo_project", ("--demo-project",), "path", "", hidden=True),
        Option("version", ("-V", "--version"), "flag", "Show the version."),
    ),
)

SESSIONS: Final = Command(
    name="sessions",
    help="List the sessions of this project, newest first.",
    examples="""
Examples:
  rewake sessions
  rewake sessions --all --limit 0
  rewake sessions --json | jq -r '.[0].session_id'
""",
    options=(
        Option("json", ("--json",), "flag", "An array of objects."),
        Option("everywhere", ("--all",), "flag", "Those of all projects, not only of this one."),
        Option(
            "limit",
            ("--limit",),
            "integer",
            "At most so many; 0 for all. Default: 50, with --json all.",
            "N",
            least=0,
        ),
        _CWD,
    ),
)

PATH: Final = Command(
    name="path",
    help="Say where everything of a session is.",
    examples="""
Examples:
  rewake path 0199b2c4
  rewake path newest --json
""",
    options=(Option("json", ("--json",), "flag", "One object."), _CWD),
    argument=_SESSION,
)

SHELL_COMMANDS: Final = Command(
    name="commands",
    help="List what a session runs in the background; read its output, end it.",
    examples="""
Examples:
  rewake commands
  rewake commands 0199b2c4 --json
  rewake commands newest --output 4d1c88f2
  rewake commands newest --stop 4d1c88f2
""",
    options=(
        Option("output", ("--output",), "text", "What this command has written.", "COMMAND"),
        Option("stop", ("--stop",), "text", "End this command and all it started.", "COMMAND"),
        Option("json", ("--json",), "flag", "An array of objects, or one object."),
        _CWD,
    ),
    argument=Option(
        "session", (), "text", "Id, beginning of an id, or title; the newest by default.", "ID"
    ),
)

TRACE: Final = Command(
    name="trace",
    help="Show where a session's time went: model, tools, waiting for permission, commits.",
    examples="""
Examples:
  rewake trace newest
  rewake trace 0199b2c4 --json | jq .steps
  rewake trace newest --send http://127.0.0.1:4318
""",
    options=(
        Option("json", ("--json",), "flag", "One object with steps, runs and answers."),
        Option(
            "send",
            ("--send",),
            "text",
            "Send it as OpenTelemetry spans to this OTLP endpoint, else where the environment says.",
            "URL",
            may_be_bare=True,
        ),
        Option("content", ("--content",), "flag", "With --send: words and arguments as well."),
        _CWD,
    ),
    argument=_SESSION,
)

AGENTS: Final = Command(
    name="agents",
    help="List the sub-agents of a session: what each was asked, how it ended, what it cost.",
    examples="""
Examples:
  rewake agents
  rewake agents 0199b2c4 --json | jq '.[] | select(.status == "interrupted")'
  rewake agents --types
""",
    options=(
        Option("json", ("--json",), "flag", "An array of objects."),
        Option("types", ("--types",), "flag", "The types of agents that this project has."),
        _CWD,
    ),
    argument=Option(
        "session", (), "text", "Id, beginning of an id, title; the newest by default.", "ID"
    ),
)

SHOW: Final = Command(
    name="show",
    help="Show a session's conversation, with what was interrupted and what is damaged.",
    examples="""
Examples:
  rewake show newest
  rewake show 0199b2c4 --json | jq '.messages[-1]'
  rewake show newest --memory
  rewake show newest --tree
  rewake show 0199b2c4 --agent 0199b2c7
""",
    options=(
        Option("json", ("--json",), "flag", "One object with all messages."),
        Option(
            "memory", ("--memory",), "flag", "Only what memory says: of the session, and notes."
        ),
        Option("tree", ("--tree",), "flag", "The branches, also those that were left."),
        Option("agent", ("--agent",), "text", "The same of one of its sub-agents.", "AGENT"),
        _CWD,
    ),
    argument=_SESSION,
)

REWIND: Final = Command(
    name="rewind",
    help="Take the conversation, the files or both back to a message; it can be undone.",
    examples="""
Examples:
  rewake rewind 0199b2c4 --to 0199b2c4-77f2-7a31-9d1c-0b6a2f4e8c11
  rewake rewind 0199b2c4 --to 0199b2c4-77f2-7a31-9d1c-0b6a2f4e8c11 --files --dry-run
  rewake rewind 0199b2c4 --to 0199b2c4-77f2-7a31-9d1c-0b6a2f4e8c11 --files --only src a.py
  rewake rewind 0199b2c4 --undo
""",
    options=(
        Option("to", ("--to",), "text", "The message to go back to, inclusive.", "MESSAGE"),
        Option(
            "conversation",
            ("--conversation",),
            "flag",
            "Only the conversation (default): no file changes.",
        ),
        Option("files", ("--files",), "flag", "Only files: what was changed since the message."),
        Option("both", ("--both",), "flag", "The conversation and the files."),
        Option("dry_run", ("--dry-run",), "flag", "Only show what would be done."),
        Option("only", ("--only",), "text", "Only these files and directories.", "PATH…"),
        Option(
            "force",
            ("--force",),
            "flag",
            "Also files that somebody else has changed since; the undo brings those back.",
        ),
        Option("undo", ("--undo",), "flag", "Go back to where the newest rewind left."),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=_SESSION,
    second=Option("more", (), "text", "More paths for --only.", "PATH", may_repeat=True),
)

DIFF: Final = Command(
    name="diff",
    help="Show what a session changed in files, whatever the agent used for it.",
    examples="""
Examples:
  rewake diff newest --stat
  rewake diff 0199b2c4 --from 0199b2c4-77f2-7a31-9d1c-0b6a2f4e8c11
""",
    options=(
        Option("since", ("--from",), "text", "Only what was changed after this.", "MESSAGE"),
        Option("until", ("--to",), "text", "Only what was changed up to this.", "MESSAGE"),
        Option("call", ("--call",), "text", "Only what this call changed.", "CALL"),
        Option("stat", ("--stat",), "flag", "Only the count of lines of each file."),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=_SESSION,
)

RESOLVE: Final = Command(
    name="resolve",
    help="Say what only a person knows: whether an interrupted call happened.",
    examples="""
Examples:
  rewake resolve 0199b2c4                          list the calls that wait for a verdict
  rewake resolve 0199b2c4 0199b2c4-77f2-7a31-9d1c-0b6a2f4e8c11 --as applied --note "mail was sent"
""",
    options=(
        Option("verdict", ("--as",), "text", "The verdict.", choices=("applied", "not-applied")),
        Option("note", ("--note",), "text", "What you saw; the model is told.", "TEXT"),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=_SESSION,
    second=Option("call", (), "text", "The call's id.", "CALL"),
)

TITLE: Final = Command(
    name="title",
    help="Give a session a title, have the model find one, or say the one it has.",
    examples="""
Examples:
  rewake title newest "Mend the fence"
  rewake title newest ""                      back to the beginning of the first prompt
  rewake title newest --generate              ask the model for one
""",
    options=(
        Option("generate", ("--generate",), "flag", "Ask the model for a title."),
        Option("model", _MODEL_FLAGS, "text", "Ask this one; default: the session's.", "MODEL"),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=_SESSION,
    second=Option("title", (), "text", "The title.", "TEXT"),
)

TAG: Final = Command(
    name="tag",
    help="Tag a session, or say the tags it has.",
    examples="""
Examples:
  rewake tag newest bug release-2
  rewake tag newest bug --remove
""",
    options=(
        Option("remove", ("--remove",), "flag", "Remove these tags."),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=_SESSION,
    second=Option("tags", (), "text", "The tags.", "TAG", may_repeat=True),
)

CONFIG: Final = Command(
    name="config",
    help="""Look at settings and change them: what is set, where, and why it counts.

Actions: list (default), get KEY, set KEY VALUE, unset KEY, explain [KEY], edit, check, migrate,
schema, trust. Changes are made in your own settings unless you say --project or --local.
""",
    examples="""
Examples:
  rewake config
  rewake config set model anthropic:claude-sonnet-5-5
  rewake config set permissions.allow "Bash(npm test:*)" --add --local
  rewake config explain permissions.allow
  rewake config edit --project
  rewake config check --json
  rewake config migrate --dry-run
  rewake config trust --show
""",
    options=(
        Option("user", ("--user",), "flag", "Your own settings, for all projects (default)."),
        Option("project", ("--project",), "flag", "The project's settings, which may be shared."),
        Option("local", ("--local",), "flag", "Your own settings in this project."),
        Option("add", ("--add",), "flag", "set: add to the list that is there."),
        Option("remove", ("--remove",), "flag", "set: take out of the list that is there."),
        Option("everything", ("--all",), "flag", "list: also keys that nobody has set."),
        Option("show", ("--show",), "flag", "trust: only show what it is about."),
        Option("yes", ("-y", "--yes"), "flag", "trust: say yes without being asked."),
        Option("no", ("--no",), "flag", "trust: say no; also takes an earlier yes back."),
        Option("dry_run", ("--dry-run",), "flag", "set, unset, migrate: only show what would be."),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=Option(
        "action",
        (),
        "text",
        "What to do; default: list.",
        "ACTION",
        choices=(
            "list",
            "get",
            "set",
            "unset",
            "explain",
            "edit",
            "check",
            "migrate",
            "schema",
            "trust",
        ),
    ),
    second=Option(
        "words", (), "text", "KEY and VALUE.", "KEY", may_repeat=True, completes="settings"
    ),
)

DEMO: Final = Command(
    name="demo",
    help="See an agent killed in an edit and wake up. No key, no network.",
    examples="""
Examples:
  rewake demo
  rewake demo --model anthropic:claude-sonnet-5-5
""",
    options=(
        Option("model", _MODEL_FLAGS, "text", "Another model than the embedded one.", "MODEL"),
        Option(
            "keep",
            ("--keep",),
            "flag",
            "Leave the scratch project, to go on with it (default), or remove it.",
            default=True,
            negation="--no-keep",
        ),
    ),
)

CHECK: Final = Command(
    name="check",
    help="Look for damage in a session: what, where, and what to do about it.",
    examples="""
Examples:
  rewake check 0199b2c4
  rewake check --all --json
""",
    options=(
        Option("everything", ("--all",), "flag", "All sessions of all projects."),
        Option("deep", ("--deep",), "flag", "Also compare checkpoints with a fold from the root."),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=_SUBJECT,
)

REPAIR: Final = Command(
    name="repair",
    help="Make a damaged transcript whole; the damaged original is kept beside it.",
    examples="""
Examples:
  rewake repair 0199b2c4 --dry-run
  rewake repair 0199b2c4
""",
    options=(
        Option("dry_run", ("--dry-run",), "flag", "Only say what would be done."),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=_SUBJECT,
)

SEARCH: Final = Command(
    name="search",
    help="Search what was said and done in sessions; each hit says how to go on from there.",
    examples="""
Examples:
  rewake search "rate limit"                  both words, in one message
  rewake search '"rate limit" retr*' --all    a phrase, and a word's beginning, in all projects
  rewake search migration --since 2w --tool Bash
  rewake search "" --file src/app.py          where a file was read or changed
""",
    options=(
        Option("json", ("--json",), "flag", "One object with the hits."),
        Option("everywhere", ("--all",), "flag", "In all projects, not only in this one."),
        Option("since", ("--since",), "text", "Not before this day, moment, 7d or 2w.", "TIME"),
        Option("until", ("--until",), "text", "Not after this day or moment.", "TIME"),
        Option("tag", ("--tag",), "text", "In sessions with this tag.", "TAG"),
        Option("tool", ("--tool",), "text", "In calls of this tool.", "NAME"),
        Option("file", ("--file",), "text", "In sessions whose calls name this file.", "PATH"),
        Option("limit", ("--limit",), "integer", "At most so many; default: 20.", "N", least=1),
        Option("cwd", ("--project", "--cwd"), "path", "The project's directory.", "DIR"),
    ),
    argument=Option(
        "query", (), "text", 'Words, "phrases", beginnings*.', "QUERY", is_required=True
    ),
)

REINDEX: Final = Command(
    name="reindex",
    help="Make the catalogue of sessions anew from the transcripts; it is derived from them.",
    examples="""
Examples:
  rewake reindex
  rewake reindex --all
""",
    options=(
        Option("json", ("--json",), "flag", "One object."),
        Option("everywhere", ("--all",), "flag", "Of all projects, in a new file."),
        _CWD,
    ),
)

BROWSE: Final = Command(
    name="browse",
    help="Browse the sessions: look into them, resume, fork, rewind, name and tag them.",
    examples="""
Examples:
  rewake browse
  rewake browse --all
""",
    options=(
        Option("everywhere", ("--all",), "flag", "Those of all projects, not only of this one."),
        _CWD,
    ),
)

_ALL: Final = Option("everywhere", ("--all",), "flag", "All projects, not only this one.")
_YES: Final = Option("yes", ("-y", "--yes"), "flag", "Don't ask.")

EXPORT: Final = Command(
    name="export",
    help="Write a session to one file: an archive to import elsewhere, Markdown, or ATIF.",
    examples="""
Examples:
  rewake export 0199b2c4 -o session.tar.zst
  rewake export newest --format markdown | less
  rewake export 0199b2c4 --format atif -o trajectory.json
""",
    options=(
        Option("output", ("-o", "--output"), "path", "The file; - is stdout.", "FILE"),
        Option(
            "format",
            ("--format",),
            "text",
            "What to write; default: archive.",
            choices=("archive", "markdown", "atif"),
        ),
        Option(
            "redact",
            ("--redact",),
            "flag",
            "Take secrets out (default), or make an exact copy.",
            default=True,
            negation="--no-redact",
        ),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=_SESSION,
)

_REDACT: Final = Option(
    "redact",
    ("--redact",),
    "flag",
    "Take secrets out (default), or show everything.",
    default=True,
    negation="--no-redact",
)
_OPEN: Final = Option("open", ("--open",), "flag", "Open it in the browser.")

REPORT: Final = Command(
    name="report",
    help="Write a session as one HTML page: timeline, conversation, changes, verdicts; no network.",
    examples="""
Examples:
  rewake report newest --open
  rewake report 0199b2c4 -o retry.html
""",
    options=(
        Option(
            "output", ("-o", "--output"), "path", "The file; default: rewake-ID.html here.", "FILE"
        ),
        _OPEN,
        _REDACT,
        Option("force", ("--force",), "flag", "Replace a file that is no report."),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=_SESSION,
)

VIEW: Final = Command(
    name="view",
    help="Look at sessions in the browser while they are at work; for this machine only, read only.",
    examples="""
Examples:
  rewake view --open                          the list of sessions
  rewake view newest --open                   one of them, as it grows
  rewake view --port 8123
""",
    options=(
        Option(
            "port", ("--port",), "integer", "Listen there; default: any free one.", "N", least=0
        ),
        _OPEN,
        _REDACT,
        _CWD,
    ),
    argument=Option("session", (), "text", "Id, beginning of an id, title, or newest.", "ID"),
)

IMPORT: Final = Command(
    name="import",
    help="Take a session out of an archive and put it under this project, to be resumed here.",
    examples="""
Examples:
  rewake import session.tar.zst
  rewake import session.tar.zst --cwd ~/src/colours
""",
    options=(
        Option("as_id", ("--as",), "text", "Give it this id.", "ID"),
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=Option("file", (), "text", "The archive.", "FILE", is_required=True),
)

DELETE: Final = Command(
    name="delete",
    help="Move sessions to the trash; forks of them keep their history.",
    examples="""
Examples:
  rewake delete 0199b2c4
  rewake trash restore 0199b2c4
""",
    options=(Option("json", ("--json",), "flag", "An array of objects."), _CWD),
    argument=_SESSION,
    second=Option("more", (), "text", "More of them.", "ID", may_repeat=True),
)

TRASH: Final = Command(
    name="trash",
    help="List the trash, take a session back, or remove what is in it for good.",
    examples="""
Examples:
  rewake trash
  rewake trash restore 0199b2c4
  rewake trash empty --older-than 30d
""",
    options=(
        Option("older_than", ("--older-than",), "text", "Only what was deleted before.", "AGE"),
        _YES,
        Option("json", ("--json",), "flag", "An array of objects."),
    ),
    argument=Option(
        "action",
        (),
        "text",
        "list (default), restore or empty.",
        "ACTION",
    ),
    second=Option("session", (), "text", "What to restore: id or name.", "ID"),
)

GC: Final = Command(
    name="gc",
    help="""Remove what no session needs: blobs that none names, leftovers of interrupted writes.

With --older-than or --quota, old sessions are moved to the trash first. Everything is announced, and
asked about, before anything goes.
""",
    examples="""
Examples:
  rewake gc --dry-run
  rewake gc --yes
  rewake gc --older-than 90d --dry-run
""",
    options=(
        Option("dry_run", ("--dry-run",), "flag", "Only say what would go."),
        Option(
            "older_than", ("--older-than",), "text", "Sessions unchanged for 90d, 8w, 1y.", "AGE"
        ),
        Option("quota", ("--quota",), "text", "The oldest sessions above 500MB, 5GB.", "SIZE"),
        _YES,
        Option("json", ("--json",), "flag", "One object."),
        _ALL,
        _CWD,
    ),
)

SKILLS: Final = Command(
    name="skills",
    help="List the skills and written commands of this project, and what is wrong with any.",
    examples="""
Examples:
  rewake skills
  rewake skills --json | jq -r '.skills[].name'
""",
    options=(Option("json", ("--json",), "flag", "One object."), _CWD),
)

INSTRUCTIONS: Final = Command(
    name="instructions",
    help="Show which AGENTS.md and CLAUDE.md apply here, in which order, why, and what is refused.",
    examples="""
Examples:
  rewake instructions
  rewake instructions src/api/routes.py
  rewake instructions --json | jq -r '.files[].shown'
""",
    options=(Option("json", ("--json",), "flag", "One object."), _CWD),
    argument=Option("path", (), "text", "Where the work is; default: here.", "PATH"),
)

MEMORY: Final = Command(
    name="memory",
    help="""List, show, edit, search or forget the notes that outlive a session.

Notes are Markdown files of the project and of the user. The agent keeps them, and so can you; a prompt
that is about one brings it back.
""",
    examples="""
Examples:
  rewake memory                               list them, and what could be joined
  rewake memory search "release of the library"
  rewake memory edit release-steps            in your editor; a new name makes a new note
  echo "Tag, then wait for CI." | rewake memory edit release-steps --file - --description "Releasing"
  rewake memory forget old-server --yes
""",
    options=(
        Option("scope", ("--scope",), "text", "Only these.", choices=("project", "user")),
        Option("file", ("--file",), "text", "With edit: take the text from here.", "FILE"),
        Option("description", ("--description",), "text", "With edit: what it is about.", "TEXT"),
        Option("kind", ("--type",), "text", "With edit: fact, decision, how-to …", "TYPE"),
        Option(
            "allow_secrets",
            ("--allow-secrets",),
            "flag",
            "With edit: keep it although it looks like a secret.",
        ),
        Option("limit", ("--limit",), "integer", "With search: at most so many.", "N", least=1),
        _YES,
        Option("json", ("--json",), "flag", "One object."),
        _CWD,
    ),
    argument=Option(
        "action", (), "text", "list (default), show, edit, search or forget.", "ACTION"
    ),
    second=Option("words", (), "text", "Names of notes, or words.", "NAME", may_repeat=True),
)

MCP: Final = Command(
    name="mcp",
    help="List the MCP servers of this project, whether they work, and their tools.",
    examples="""
Examples:
  rewake mcp
  rewake mcp list --json | jq '.servers[].state'
""",
    options=(Option("json", ("--json",), "flag", "One object."), _CWD),
    argument=Option("action", (), "text", "list (default).", "ACTION", choices=("list",)),
)

STATS: Final = Command(
    name="stats",
    help="Count sessions, tokens and cost, by project, day and model.",
    examples="""
Examples:
  rewake stats
  rewake stats --all
  rewake stats --all --json | jq .total.cost_usd
""",
    options=(_ALL, Option("json", ("--json",), "flag", "One object."), _CWD),
)

COMMANDS: Final = {
    command.name: command
    for command in (
        SESSIONS,
        PATH,
        SHELL_COMMANDS,
        TRACE,
        SHOW,
        AGENTS,
        REWIND,
        DIFF,
        RESOLVE,
        TITLE,
        TAG,
        BROWSE,
        SEARCH,
        REINDEX,
        CHECK,
        REPAIR,
        EXPORT,
        REPORT,
        VIEW,
        IMPORT,
        DELETE,
        TRASH,
        GC,
        STATS,
        SKILLS,
        CONFIG,
        INSTRUCTIONS,
        MEMORY,
        MCP,
        DEMO,
    )
}
