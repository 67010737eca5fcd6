"""Start-up is a feature: what `import rewake` and `rewake --version` load is an allow-list.

No time is measured here (benchmarks/startup.py does that): a module that isn't loaded costs nothing
on any machine.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

# Whatever these load themselves differs between versions of Python and is fine.
STANDARD = "import __future__, collections.abc, importlib, typing"
IMPORT = ("rewake", "rewake.version")
VERSION = (*IMPORT, "rewake.cli", "rewake.cli.main")
LOADED = "; import sys; print(); print(*sys.modules)"


def loaded_by(code: str) -> set[str]:
    printed = subprocess.run(
        [sys.executable, "-c", code + LOADED], check=True, capture_output=True, text=True
    ).stdout
    return set(printed.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import rewake", IMPORT),
        ("import rewake; dir(rewake)", IMPORT),
        ("from rewake.cli.main import main; main(['--version'])", VERSION),
        ("from rewake.cli.main import main; main(['-V'])", VERSION),
    ],
)
def test_nothing_outside_the_allow_list_is_loaded(code: str, allowed: tuple[str, ...]) -> None:
    assert loaded_by(code) - loaded_by(STANDARD) <= set(allowed)


@pytest.mark.parametrize("code", ["rewake.open_session", "rewake.sessions", "rewake.resume"])
def test_a_session_needs_no_command_line_no_model_and_no_tool(code: str) -> None:
    loaded = loaded_by(f"import rewake; {code}")
    heavy = {"typer", "rich", "prompt_toolkit", "pydantic", "pydantic_ai", "pathspec", "asyncio"}
    assert not heavy & loaded
    assert not [name for name in loaded if name.startswith(("rewake.cli", "rewake.agent"))]
