"""A home with sessions such as people have: edits, failures, something interrupted, branches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import rewake
from rewake.compose.place import Place
from rewake.log.layout import SessionPaths
from rewake.model.content import Text, ToolCall

ANSWER = """## What I found

The retry loop **never** sleeps, because `delay` is reset in each pass:

- `retry.py` sets it to zero
- the test only counts calls

```python
def retry(call, attempts=3):
    delay = 0.1
    return call()
```

| file | lines |
| --- | --- |
| retry.py | 12 |

See [the docs](https://example.org/retry) and <b>this</b>.
"""
BEFORE = "def retry(call):\n    delay = 0\n    return call()\n"
AFTER = "def retry(call):\n    delay = 0.1\n    return call()\n"


@dataclass(frozen=True)
class Seeded:
    """A home and a project with helpers that make sessions in them."""

    root: Path

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def project(self) -> Path:
        path = self.root / "project"
        path.mkdir(exist_ok=True)
        return path

    @property
    def at(self) -> Place:
        return Place(self.home, self.project.resolve())

    def open(self, **more: object) -> rewake.Session:
        return rewake.open_session(
            self.project,
            home=self.home,
            durability="process",
            trace=False,
            **more,  # type: ignore[arg-type]  # the caller's own keywords
        )

    def say(self, prompt: str, answer: str = "Done.", **metadata: object) -> str:
        """A session with one prompt and its answer; returns its id."""
        with self.open() as session:
            session.user(prompt)
            session.assistant(answer, model="test:model")
            if metadata:
                session.metadata(**metadata)
            session.terminal("done")
            return session.session_id

    def rich(self) -> str:
        """A session with everything in it; its last call was interrupted."""
        (self.project / "retry.py").write_text(BEFORE)
        with self.open() as session:
            session.metadata(title="Fix the retry loop", tags=["bug", "retry"])
            session.user("Why does the retry test fail? Please fix it.")
            session.assistant(
                [
                    Text(ANSWER),
                    ToolCall("c1", "Edit", {"file_path": "retry.py", "edits": []}),
                    ToolCall("c2", "Bash", {"command": "pytest -q tests/test_retry.py"}),
                ],
                model="test:model",
            )
            first, second = (
                block
                for block in session.messages[-1].message.content
                if isinstance(block, ToolCall)
            )
            change = rewake.FileChange(self.project / "retry.py", BEFORE, AFTER)
            with session.action(first, intent=change) as action:
                (self.project / "retry.py").write_text(AFTER)
                action.complete("edited retry.py")
            with session.action(second, intent=rewake.OtherIntent()) as action:
                action.fail("1 failed, 3 passed in 0.12s\nE   AssertionError: 3 != 2")
            session.assistant("One test still fails; I look at it next.", model="test:model")
            return session.session_id

    def branched(self) -> str:
        """A session that was rewound after its first answer, and went another way."""
        with self.open() as session:
            session.user("Name three colours")
            back = session.assistant("Red, green, blue.", model="test:model")
            session.user("Now three animals")
            session.assistant("Cat, dog, owl.", model="test:model")
            session.rewind(back)
            session.user("Now three rivers")
            session.assistant("Elbe, Oder, Rhine.", model="test:model")
            session.terminal("done")
            return session.session_id

    def break_(self, session_id: str) -> None:
        """Damage a session's transcript in the middle."""
        path = self.paths(session_id).transcript
        lines = path.read_bytes().split(b"\n")
        lines[2] = b"\x00\x00garbage"
        path.write_bytes(b"\n".join(lines))

    def paths(self, session_id: str) -> SessionPaths:
        return self.at.layout.find(session_id)

    def many(self, count: int) -> None:
        """Small sessions, quickly: copies of one, each with its own id."""
        template = self.paths(self.say("Copy me number 000000", "Yes.")).transcript.read_text()
        old = template.split('"session_id":"', 1)[1].split('"', 1)[0]
        sessions = self.paths(old).directory.parent
        for number in range(count - 1):
            session_id = f"{old[:-8]}{number:08d}"
            directory = sessions / session_id
            directory.mkdir(mode=0o700)
            lines = template.replace(old, session_id).replace(
                "number 000000", f"number {number:06d}"
            )
            (directory / "transcript.jsonl").write_text(_without_checksums(lines))


def _without_checksums(lines: str) -> str:
    """A reader accepts lines that have none."""
    bodies = (line.rpartition(',"crc32"')[0] for line in lines.split("\n") if line)
    return "".join(f"{body}}}\n" for body in bodies)
