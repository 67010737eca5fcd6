"""Commands: what is said of a session, and going back in it and its files."""

from __future__ import annotations

from typing import Final

from rewake.cli.table.parts import CWD, MODEL_FLAGS, SESSION, Command, Option

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
        CWD,
    ),
    argument=SESSION,
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
        CWD,
    ),
    argument=SESSION,
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
        CWD,
    ),
    argument=SESSION,
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
        Option("model", MODEL_FLAGS, "text", "Ask this one; default: the session's.", "MODEL"),
        Option("json", ("--json",), "flag", "One object."),
        CWD,
    ),
    argument=SESSION,
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
        CWD,
    ),
    argument=SESSION,
    second=Option("tags", (), "text", "The tags.", "TAG", may_repeat=True),
)

COMMANDS: Final = (REWIND, DIFF, RESOLVE, TITLE, TAG)
