"""Commands: what a session, or all of them, looks like; nothing is changed by these."""

from __future__ import annotations

from typing import Final

from rewake.cli.table.parts import ALL, CWD, SESSION, Command, Option

REDACT: Final = Option(
    "redact",
    ("--redact",),
    "flag",
    "Take secrets out (default), or show everything.",
    default=True,
    negation="--no-redact",
)

OPEN: Final = Option("open", ("--open",), "flag", "Open it in the browser.")

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
        CWD,
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
    options=(Option("json", ("--json",), "flag", "One object."), CWD),
    argument=SESSION,
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
        CWD,
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
        CWD,
    ),
    argument=SESSION,
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
        CWD,
    ),
    argument=SESSION,
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
        CWD,
    ),
    argument=Option(
        "session", (), "text", "Id, beginning of an id, title; the newest by default.", "ID"
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
        CWD,
    ),
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
        CWD,
    ),
)

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
        OPEN,
        REDACT,
        Option("force", ("--force",), "flag", "Replace a file that is no report."),
        Option("json", ("--json",), "flag", "One object."),
        CWD,
    ),
    argument=SESSION,
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
        OPEN,
        REDACT,
        CWD,
    ),
    argument=Option("session", (), "text", "Id, beginning of an id, title, or newest.", "ID"),
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
    options=(ALL, Option("json", ("--json",), "flag", "One object."), CWD),
)

COMMANDS: Final = (
    SESSIONS,
    PATH,
    SHELL_COMMANDS,
    TRACE,
    SHOW,
    AGENTS,
    BROWSE,
    SEARCH,
    REINDEX,
    REPORT,
    VIEW,
    STATS,
)
