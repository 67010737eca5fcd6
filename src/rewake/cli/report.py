"""`rewake report`: a session as one page."""

from __future__ import annotations

from pathlib import Path

from rewake.cli.amounts import amount
from rewake.cli.bar import Bar
from rewake.cli.terminal import clean, note, say
from rewake.compose.place import find_session, place
from rewake.compose.reports import Reported, report


def report_session(
    session: str,
    output: Path | None,
    cwd: Path | None,
    *,
    redact: bool,
    force: bool,
    open_: bool,
    as_json: bool,
) -> int:
    """Write it, say where it is, and show it if asked to; returns the exit status.

    Raises what `compose.reports.report` raises.
    """
    at = place(cwd or ".")
    paths = find_session(at, session)
    with Bar("Reading") as bar:
        done = report(
            paths.session_id,
            output,
            redact=redact,
            force=force,
            project=at.root,
            home=at.home,
            progress=bar.show,
        )
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(done)
    else:
        _print(done)
    if open_:
        show_in_browser(Path(done.path).as_uri())
    return 0


def show_in_browser(address: str) -> None:
    """Open it where the user looks at pages; where there is no browser, say so."""
    import webbrowser

    if not webbrowser.open(address):
        note(f"No browser was found; open {address} in one.")


def _print(done: Reported) -> None:
    say(f"{clean(done.path)} ({amount(done.size)})")
    if done.left_out:
        note(
            f"The contents of {done.left_out} rows were left out, so that it stays small: "
            f"rewake view {done.session_id[:13]} shows them."
        )
    if done.redacted is None:
        note("Nothing was redacted: it may hold keys and passwords.")
        return
    total = sum(done.redacted.values())
    found = (
        f"Secrets taken out of {total} place{'s' * (total != 1)}."
        if total
        else "No secret was found."
    )
    note(f"{found} No detector finds all of them: look before you share it.")
