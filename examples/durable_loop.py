"""A home-made agent loop made durable with Rewake. Run it, kill it anywhere, run it again.

    uv run python examples/durable_loop.py          # the model is a toy here: no key, no network

Everything marked (rewake) is what durability adds to an ordinary loop.
"""

from __future__ import annotations

import sys
from pathlib import Path

import rewake

TARGET = Path("greeting.txt")


def toy_model(view: tuple[rewake.ViewMessage, ...]) -> list[rewake.Text | rewake.ToolCall]:
    """Stands for your provider's client: `rewake.openai_messages(view)` is what you would send."""
    answered = any(message.role == "tool" for message in view)
    if answered:
        return [rewake.Text("The greeting is written.")]
    return [rewake.ToolCall("call_1", "write", {"text": "Hello again!\n"})]


def main(project: Path) -> None:
    """Answer one prompt in `project`, or go on with the one that was cut off."""
    known = rewake.sessions(project)
    resume = rewake.NEWEST if known and known[0].state != "done" else None
    with rewake.open_session(project, resume=resume) as session:  # (rewake)
        if resume is None:
            session.user("Write a greeting.")  # (rewake) durable when it returns
        while True:
            reply = toy_model(session.view())  # (rewake) a request that any provider accepts
            session.assistant(reply)  # (rewake)
            calls = [block for block in reply if isinstance(block, rewake.ToolCall)]
            if not calls:
                break
            for call in calls:
                path = project / TARGET
                before = path.read_bytes() if path.exists() else None
                after = call.arguments["text"]
                with session.action(  # (rewake) the intent is durable before the body runs
                    call, intent=rewake.FileChange(path, before, after)
                ) as action:
                    path.write_text(after)
                    action.complete("Written.")  # (rewake) the outcome, durable too
        session.terminal("done")  # (rewake)
        print(f"Session {session.session_id}: {(project / TARGET).read_text()!r}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve())
