"""`rewake export`: a session as one file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from rewake.archive.export import Exported
from rewake.cli.amounts import amount
from rewake.cli.terminal import clean, note, say
from rewake.compose.archives import Form, export, rendered
from rewake.compose.place import find_session, place
from rewake.errors import UsageError
from rewake.redaction.redactor import Redactor

_SUFFIXES: Final[dict[Form, str]] = {
    "archive": ".rewake.tar.zst",
    "markdown": ".md",
    "atif": ".atif.json",
}
_STDOUT: Final = Path("-")


def export_session(
    session: str,
    output: Path | None,
    cwd: Path | None,
    *,
    form: Form,
    redact: bool,
    as_json: bool,
) -> int:
    """Write it and say what was taken out; returns the exit status.

    Without `output`, text goes to stdout and an archive into the current directory. Raises what
    `compose.archives.export` raises.
    """
    at = place(cwd or ".")
    paths = find_session(at, session)
    to_stdout = output == _STDOUT or (output is None and form != "archive" and not as_json)
    if to_stdout and form == "archive":
        raise UsageError("An archive isn't written to stdout.", remedy="Name a file with -o.")
    if to_stdout:
        redactor = Redactor(os.environ) if redact else None
        say(rendered(at, paths, form, redactor), end="")
        _tell_redacted(dict(redactor.counts) if redactor is not None else None)
        return 0
    target = output or Path(f"{paths.session_id}{_SUFFIXES[form]}")
    _require_directory(target)
    done = export(paths.session_id, target, form=form, redact=redact, project=at.root, home=at.home)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(done)
        return 0
    _print(done, redact=redact)
    return 0


def _require_directory(target: Path) -> None:
    if not target.absolute().parent.is_dir():
        raise UsageError(
            f"There is no directory {target.absolute().parent} to write to.",
            remedy="Make it, or name another file with -o.",
        )


def _print(done: Exported, *, redact: bool) -> None:
    say(f"Exported {done.session_id} to {clean(done.path)} ({amount(done.size)}).")
    for sentence in done.incomplete:
        note(f"Not in it: {sentence}")
    _tell_redacted(done.redacted if redact else None)


def _tell_redacted(kinds: dict[str, int] | None) -> None:
    """On stderr, since stdout may be the export itself."""
    if kinds is None:
        note("Nothing was redacted: it may hold keys and passwords.")
        return
    total = sum(kinds.values())
    what = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    found = (
        f"Secrets taken out of {total} place{'s' * (total != 1)} ({what})."
        if total
        else "No secret was found."
    )
    note(f"{found} No detector finds all of them: look before you share it.")
