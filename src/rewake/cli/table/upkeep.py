"""Commands: checking, moving, removing."""

from __future__ import annotations

from typing import Final

from rewake.cli.table.parts import ALL, CWD, SESSION, SUBJECT, YES, Command, Option

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
        CWD,
    ),
    argument=SUBJECT,
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
        CWD,
    ),
    argument=SUBJECT,
)

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
        CWD,
    ),
    argument=SESSION,
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
        CWD,
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
    options=(Option("json", ("--json",), "flag", "An array of objects."), CWD),
    argument=SESSION,
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
        YES,
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
        YES,
        Option("json", ("--json",), "flag", "One object."),
        ALL,
        CWD,
    ),
)

COMMANDS: Final = (CHECK, REPAIR, EXPORT, IMPORT, DELETE, TRASH, GC)
