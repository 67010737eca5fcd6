"""`rewake import`: a session from another machine, to be resumed here."""

from __future__ import annotations

from pathlib import Path

from rewake.archive.importing import Imported
from rewake.cli.amounts import amount
from rewake.cli.terminal import clean, one_line, say
from rewake.compose.archives import import_
from rewake.compose.place import place
from rewake.errors import UsageError


def import_archive(file: str, cwd: Path | None, *, new_id: str | None, as_json: bool) -> int:
    """Import it and say where it is; returns the exit status. Raises UsageError, and what `import_` raises."""
    if not Path(file).is_file():
        raise UsageError(
            f"There is no file {file}.", remedy="Name an archive that `rewake export` has written."
        )
    at = place(cwd or ".")
    done = import_(file, project=at.root, home=at.home, new_id=new_id)
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(done)
        return 0
    for sentence in _sentences(done, at.root):
        say(sentence)
    return 0


def _sentences(done: Imported, root: Path) -> list[str]:
    name = one_line(done.session_id)
    if done.outcome == "already_here":
        return [f"The session {name} is here already; nothing was changed."]
    lines = [f"Imported {name} ({amount(done.size)}) into {clean(str(root))}."]
    if done.redacted:
        places = f"{done.redacted} place{'s' * (done.redacted != 1)}"
        lines.append(f"Secrets were taken out of {places} when it was exported.")
    if done.recorded_root and done.recorded_root != str(root):
        lines.append(
            f"It was recorded in {one_line(done.recorded_root)}: paths in its conversation are those."
        )
    lines.extend(f"Not in it: {one_line(sentence)}" for sentence in done.incomplete)
    lines.append(f"Go on with it: rewake --resume {name}")
    return lines
