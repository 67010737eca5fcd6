"""Commands: what the agent works with, and trying it."""

from __future__ import annotations

from typing import Final

from rewake.cli.table.parts import CWD, MODEL_FLAGS, YES, Command, Option

SKILLS: Final = Command(
    name="skills",
    help="List the skills and written commands of this project, and what is wrong with any.",
    examples="""
Examples:
  rewake skills
  rewake skills --json | jq -r '.skills[].name'
""",
    options=(Option("json", ("--json",), "flag", "One object."), CWD),
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
        CWD,
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

INSTRUCTIONS: Final = Command(
    name="instructions",
    help="Show which AGENTS.md and CLAUDE.md apply here, in which order, why, and what is refused.",
    examples="""
Examples:
  rewake instructions
  rewake instructions src/api/routes.py
  rewake instructions --json | jq -r '.files[].shown'
""",
    options=(Option("json", ("--json",), "flag", "One object."), CWD),
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
        YES,
        Option("json", ("--json",), "flag", "One object."),
        CWD,
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
    options=(Option("json", ("--json",), "flag", "One object."), CWD),
    argument=Option("action", (), "text", "list (default).", "ACTION", choices=("list",)),
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
        Option("model", MODEL_FLAGS, "text", "Another model than the embedded one.", "MODEL"),
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

COMMANDS: Final = (SKILLS, CONFIG, INSTRUCTIONS, MEMORY, MCP, DEMO)
