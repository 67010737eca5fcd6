"""`rewake instructions`: which AGENTS.md and CLAUDE.md apply, in which order, why, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

from rewake.cli.amounts import amount
from rewake.cli.terminal import clean, let_readers_leave, one_line, say, style_for
from rewake.compose.memory import instructions
from rewake.memory.instructions import NAMES, Applying, InstructionFile


def show_instructions(path: str | None, cwd: Path | None, *, as_json: bool) -> int:
    """Print them; returns the exit status. Raises SettingsError."""
    let_readers_leave()
    found = instructions(path, cwd or Path())
    if as_json:
        from rewake.cli.jsonout import print_json

        print_json(
            {
                "files": [
                    {
                        "path": str(file.path),
                        "shown": file.shown,
                        "level": file.level,
                        "why": file.why,
                        "bytes": file.size,
                        "bytes_given": len(file.text.encode()),
                        "sha256": file.sha256,
                        "imported_by": file.imported_by or None,
                        "cut": file.is_cut,
                        "damaged": file.is_damaged,
                    }
                    for file in found.files
                ],
                "refused": [
                    {
                        "shown": one.shown,
                        "reason": one.reason,
                        "imported_by": one.imported_by or None,
                    }
                    for one in found.refused
                ],
            }
        )
    else:
        print_instructions(found)
    return 0


def print_instructions(found: Applying) -> None:
    """Print them for people: far to near, so that the last word is the last line."""
    style = style_for(sys.stdout)
    for file in found.files:
        say(f"{style.bold(one_line(file.shown))}  {style.dim(_about(file))}")
    if not found.files:
        say(f"No instructions apply here. They are read from {', '.join(NAMES)}.")
    if found.refused:
        say(style.yellow("Not given:"))
    for one in found.refused:
        by = f" (imported by {one_line(one.imported_by)})" if one.imported_by else ""
        say(f"  {one_line(one.shown)}{by}: {clean(one.reason)}")


def _about(file: InstructionFile) -> str:
    parts = [f"for {one_line(file.why)}", amount(file.size)]
    if file.imported_by:
        parts.append(f"imported by {one_line(file.imported_by)}")
    if file.is_cut:
        parts.append(f"only the first {len(file.text.encode())} bytes are given")
    if file.is_damaged:
        parts.append("bytes that are no UTF-8 were replaced")
    return ", ".join(parts)
