"""The page's own parts: its script, its style, the chart library; and the policy that lets only them run.

The rules kept here:

- The script is written as ES modules and joined here in `_MODULES`' order: their imports and the word
  `export` go, the rest is what runs, in one scope. There is no build step.
- The policy names script and style by their hashes. Nothing else runs or styles, and no text becomes
  markup, since the policy asks for Trusted Types and allows none.
"""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_MODULES: Final = (
    *("dom", "text", "data", "rows", "diff", "items", "list", "search"),
    *("charts", "branches", "panels", "keys", "session", "home", "app"),
)
_IMPORT: Final = re.compile(r'^import [^;]*? from "\./[a-z]+\.js";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=const|let|function|class|async)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Assets:
    """Scripts and styles as they stand in the page."""

    scripts: tuple[str, ...]
    styles: tuple[str, ...]
    body: str

    def policy(self, connect: str) -> str:
        """The Content-Security-Policy; `connect` is where the script may fetch from."""
        scripts = " ".join(_source(script) for script in self.scripts)
        styles = " ".join(_source(style) for style in self.styles)
        return (
            f"default-src 'none'; script-src {scripts}; style-src {styles}; img-src data:; "
            f"connect-src {connect}; base-uri 'none'; form-action 'none'; object-src 'none'; "
            "require-trusted-types-for 'script'; trusted-types 'none'"
        )

    def head(self) -> str:
        """The styles, for the head of the page."""
        return "".join(f"<style>{style}</style>\n" for style in self.styles)

    def tail(self) -> str:
        """The scripts, for its body."""
        return "".join(f"<script>{script}</script>\n" for script in self.scripts)


def _source(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def assets() -> Assets:
    """Read once a process."""
    chart_script = _read("uplot/uPlot.iife.min.js")
    return Assets(
        scripts=(chart_script, bundle()),
        styles=(_read("uplot/uPlot.min.css"), _read("page.css")),
        body=_read("body.html"),
    )


def bundle() -> str:
    """All modules as one script."""
    parts = [_EXPORT.sub("", _IMPORT.sub("", _read(f"js/{name}.js"))) for name in _MODULES]
    return '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"


def _read(name: str) -> str:
    return files("rewake.report").joinpath("assets", name).read_text("utf-8")
