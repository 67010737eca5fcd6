"""The options of `rewake` itself: a conversation, or one prompt."""

from __future__ import annotations

from typing import Final

from rewake.cli.table.parts import MODEL_FLAGS, Command, Option

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
            MODEL_FLAGS,
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
