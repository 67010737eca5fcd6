"""Writes the golden transcripts of format version 1 beside this file: `python tests/golden/make.py`.

Clock, ids and facts are fixed, so the same bytes come out every time. A file of a version that was
ever released is never changed again: a later version gets files of its own.

The folded states inside the checkpoints are read from `v1-states.json`, because the fold may change
without the format changing; `--refold` computes them anew with the fold of today.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from rewake.log.blobs import BlobStore
from rewake.log.disk import Disk
from rewake.model import events as ev
from rewake.model import tree
from rewake.model.codec import (
    CorruptLine,
    Decoder,
    decode_line,
    decode_payload,
    encode_payload,
    preview_of,
)
from rewake.model.content import (
    File,
    Image,
    JsonObject,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from rewake.model.ids import join_id
from rewake.record.lines import LineFormat
from rewake.state.conversation import Conversation
from rewake.state.fold import SessionState

HERE = Path(__file__).parent
SESSION = "01945b9d-4400-7000-8000-00000000aaaa"
OTHER_SESSION = "01945b9d-4400-7000-8000-00000000bbbb"
RUNS = ("01945b9d-4400-7000-8000-000000000001", "01945b9d-4400-7000-8000-000000000002")
MILLISECOND = 1_736_683_200_000  # 2025-01-12T12:00:00Z
OLD, NEW = b"colour = 1\n", b"color = 1\n"
PIXEL = b"\x89PNG\r\n\x1a\n(not really)"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Writer:
    """The lines of one transcript, a millisecond and an event apart."""

    def __init__(self, states: dict[str, JsonObject], *, session_id: str = SESSION) -> None:
        self.lines: list[bytes] = []
        self.ids: list[str] = []
        self.blobs: dict[str, bytes] = {}
        self.states = states
        self.fold = SessionState()
        self._session_id = session_id
        self._run = 0

    def write(
        self, payload: ev.KnownPayload, *, parent: str | None = None, spill: bool = False
    ) -> str:
        if isinstance(payload, ev.RunStart):
            self._run = payload.generation - 1
        n = len(self.ids)
        name = ev.EVENT_TYPES[type(payload)]
        event = ev.Event(
            event_id=join_id(MILLISECOND + n, n),
            parent_id=parent or (self.ids[-1] if self.ids else None),
            seq=n,
            timestamp=f"2025-01-12T12:00:00.{n:03d}000Z",
            session_id=self._session_id,
            run_id=RUNS[self._run],
            event_type=name,
            schema_version=1,
            payload=payload,
            step=n // 8,
        )
        encoded = encode_payload(payload)
        written = self.spill(encoded) if spill else encoded
        line = LineFormat(self._session_id, RUNS[self._run], None).line(event, written)
        self.lines.append(line)
        self.ids.append(event.event_id)
        read = decode_line(line[:-1])
        assert isinstance(read, ev.Event)
        self.fold.apply(
            msgspec.structs.replace(read, payload=decode_payload(name, 1, encoded)),
        )
        return event.event_id

    def spill(self, encoded: bytes) -> bytes:
        name = sha256(encoded)
        self.blobs[name] = encoded
        blob = ev.SpilledBlob(name, len(encoded))
        return encode_payload(ev.Spilled(blob, msgspec.Raw(preview_of(encoded))))

    def checkpoint(
        self,
        label: str,
        kind: Literal["compaction", "state"] = "state",
        *,
        kept: Callable[[str], bool] | None = None,
        conversation: Conversation | None = None,
        summary: str | None = None,
        session_memory: str | None = None,
    ) -> ev.Checkpoint:
        """A checkpoint whose folded state is the one on file under `label`."""
        chosen = None
        if kept is not None:
            chosen = [e for e in self.fold.conversation.entries if kept(e.message_id)]
        made = self.fold.checkpoint(
            kind,
            kept=chosen,
            conversation=conversation,
            summary=summary,
            session_memory=session_memory,
            tokens_before=9_000 if summary else 0,
            tokens_after=700 if summary else 0,
            trigger="tokens" if summary else "",
        )
        known = self.states.setdefault(label, json.loads(encode_payload(made)))
        restored = decode_payload("checkpoint", 1, json.dumps(known).encode())
        assert isinstance(restored, ev.Checkpoint)
        return restored

    def rewind(self, target_id: str, conversation: Conversation) -> None:
        """Back to `target_id`, where `conversation` was what it was."""
        checkpoint = self.checkpoint("rewind", conversation=conversation)
        self.fold.conversation = conversation
        self.write(ev.Rewind(target_id, "conversation", checkpoint), parent=target_id)

    def call(self, message_id: str, index: int, name: str, provider_id: str) -> ev.ToolLifecycle:
        """Write `requested`; returns what the later phases of the call are made from."""
        requested = ev.ToolLifecycle(
            name,
            "requested",
            message_id=message_id,
            index=index,
            provider_call_id=provider_id,
            arguments={"file_path": "a.py"},
        )
        call_id = self.write(requested)
        return msgspec.structs.replace(requested, call_id=call_id, arguments=None)

    def phase(
        self,
        call: ev.ToolLifecycle,
        status: ev.CallStatus,
        *,
        intent: ev.Intent | None = None,
        outcome: ev.Outcome | None = None,
        result: ev.Result | None = None,
        resolution: ev.Resolution | None = None,
    ) -> str:
        return self.write(
            msgspec.structs.replace(
                call,
                status=status,
                intent=intent,
                outcome=outcome,
                result=result,
                resolution=resolution,
            )
        )


# --- the story -------------------------------------------------------------------------------


def begin(out: Writer) -> str:
    out.write(
        ev.SessionStart(project={"root": "/home/ada/colours", "origin": "git@example.org:c.git"})
    )
    out.write(
        ev.RunStart(
            1, "laptop", "boot-1", 4711, "0.1.0", cwd="/home/ada/colours", model="script:demo",
            permission_mode="acceptEdits",
        )
    )  # fmt: skip
    out.write(ev.Metadata({"title": "American spelling", "draft": None}))
    image = Image("image/png", sha256(PIXEL), len(PIXEL))
    notes = File("notes.txt", "text/plain", sha256(OLD), len(OLD))
    out.blobs.update({sha256(PIXEL): PIXEL, sha256(OLD): OLD})
    return out.write(ev.Message("user", (Text("Fix the\u2028spelling, día 🙂"), image, notes)))


def parallel_calls(out: Writer) -> None:
    """Two calls with the same provider id run side by side; usage arrives late."""
    out.write(ev.StateTransition("idle", "requesting", "prompt", {"attempt": 1}))
    asked = out.write(
        ev.Message(
            "assistant",
            (
                Thinking("hm", signature="c2ln", provider={"kind": "summary"}),
                Text("half a character: \ud83d"),
                ToolCall("call_1", "Read", {"file_path": "a.py"}),
                Opaque(b'{"type":"hologram","depth":[1, 2.50],"note":"\\udc00"}'),
                ToolCall("call_1", "Edit", arguments_text="{not json"),
            ),
            model="demo-1",
            stop_reason="tool_use",
            provider={"response_id": "r-1", "nothing": None},
        )
    )
    out.write(ev.MessageAmendment(asked, usage=Usage(1200, 80, 1000, 10, 0.0125)))
    read = out.call(asked, 0, "Read", "call_1")
    edit = out.call(asked, 1, "Edit", "call_1")
    out.phase(read, "started", intent=ev.ReadOnlyIntent())
    change = ev.Change(
        "/home/ada/colours/a.py",
        ev.FileState("file", sha256(OLD), len(OLD), 0o644),
        ev.FileState("file", sha256(NEW), len(NEW), 0o644),
    )
    out.blobs[sha256(NEW)] = NEW
    out.phase(edit, "started", intent=ev.FileChangeIntent((change,)))
    out.phase(edit, "completed", outcome=ev.Outcome((change,)), result=ev.Result((Text("edited"),)))
    reads = (ev.FileRead("/home/ada/colours/a.py", sha256(OLD)),)
    shown = ev.Result((Text("1\tcolour = 1\n"),))
    out.phase(read, "completed", outcome=ev.Outcome(reads=reads, duration_ms=3), result=shown)


def killed_and_resumed(out: Writer) -> None:
    """A command and two other effects are under way when the process dies; the next one settles."""
    asked = out.write(
        ev.Message(
            "assistant",
            tuple(ToolCall(f"call_{n}", name) for n, name in enumerate(("Bash", "mcp", "Task"))),
            usage=Usage(1300, 20),
            stop_reason="tool_use",
        )
    )
    shell = out.call(asked, 0, "Bash", "call_0")
    other = out.call(asked, 1, "mcp", "call_1")
    task = out.call(asked, 2, "Task", "call_2")
    directory = f"outputs/{shell.call_id}"
    intent = ev.ShellIntent("make test", "/home/ada/colours", directory, 120_000)
    out.phase(shell, "started", intent=intent)
    out.phase(other, "started", intent=ev.OtherIntent("post a comment", "key-1"))
    out.phase(task, "started", intent=ev.AgentIntent("a1"))
    out.write(ev.AgentEvent("a1", "spawned", "look around", "explorer", task.call_id))
    out.write(ev.RunStart(2, "laptop", "boot-2", 815, "0.1.0", cwd="/home/ada/colours"))
    passed = ev.Verification("make test", passed=True)
    out.phase(
        shell,
        "resolved",
        outcome=ev.Outcome(exit_code=0, verification=passed, details={"signal": None}),
        result=ev.Result((Text("3 passed"),)),
        resolution=ev.Resolution("applied", {"exit": {"exit_code": 0}}),
    )
    unknown = ev.Resolution("unknown", {"verify": None}, "user", "it was not posted")
    out.phase(other, "resolved", result=ev.Result((), is_error=True), resolution=unknown)
    out.phase(task, "failed", result=ev.Result((Text("stopped"),), is_error=True))
    out.write(ev.AgentEvent("a1", "failed", details={"steps": 0}))
    out.write(ev.Message("user", (Text("make test has passed"),), source="rewake"))


def own_results(out: Writer) -> None:
    """A loop that records the results of its tools as messages."""
    todos = (ev.Todo("spell"), ev.Todo("test", "completed"))
    asked = out.write(ev.Message("assistant", (ToolCall("call_1", "Todo"), ToolCall("x", "Noop"))))
    noop = out.call(asked, 1, "Noop", "x")
    result = ToolResult("call_1", (Text("noted"),), is_error=True)
    out.write(ev.Message("tool", (result,)))
    out.phase(noop, "completed", outcome=ev.Outcome(todos=todos), result=ev.Result())


def whole(states: dict[str, JsonObject]) -> Writer:
    """Every event type, every kind of block, intent and phase; a compaction, a rewind, a spill."""
    out = Writer(states)
    prompt = begin(out)
    parallel_calls(out)
    killed_and_resumed(out)
    out.write(out.checkpoint("state"))
    own_results(out)
    out.write(
        out.checkpoint(
            "compaction",
            "compaction",
            kept=lambda message_id: message_id == prompt,
            summary="The spelling is fixed.",
            session_memory="Goal: American spelling",
        )
    )
    target = out.write(ev.Message("assistant", (Text("done"),), stop_reason="end"))
    there = copy.deepcopy(out.fold.conversation)
    out.write(ev.Message("user", (Text("and now the docs: " + "long " * 200),)), spill=True)
    out.write(ev.Message("assistant", (Text("no"),), stop_reason="interrupted"))
    out.rewind(target, there)
    out.write(ev.Message("user", (Text("thanks"),)))
    out.write(ev.Terminal("done", {"steps": 4}))
    return out


def fork(states: dict[str, JsonObject]) -> Writer:
    """A session that starts from an event of another."""
    out = Writer(states, session_id=OTHER_SESSION)
    origin = ev.ForkOrigin(SESSION, join_id(MILLISECOND + 3, 3))
    out.write(ev.SessionStart(project={}, forked_from=origin, checkpoint=out.checkpoint("fork")))
    out.write(ev.RunStart(1))
    out.write(ev.Message("user", (Text("another way"),)))
    return out


# --- damage ----------------------------------------------------------------------------------


def torn(lines: list[bytes]) -> bytes:
    """The last record is cut inside a character of several bytes."""
    cut = lines[3].index("🙂".encode()) + 2
    return b"".join(lines[:3]) + lines[3][:cut]


def damaged(lines: list[bytes]) -> bytes:
    """A flipped bit, lines that are no events, NULs, lost lines, CRLF, another key order."""
    flipped = lines[4].replace(b"requesting", b"sequesting")
    header = json.loads(lines[7])
    shuffled = json.dumps(dict(reversed(header.items())), separators=(", ", ": ")).encode()
    unknown = lines[8].replace(b"tool_lifecycle", b"hologram").split(b',"crc32"')[0] + b"}\n"
    return b"".join(
        [
            *lines[:4],
            flipped,
            b"null\n[1]\n7\n\n",
            b"\x00" * 64 + b"\n",
            b"\x00" * 8 + lines[5],
            # line 6 is lost
            shuffled + b"\r\n",
            unknown,
            lines[9] + lines[9],
            lines[10][:-1] + lines[11],
            lines[12],
            b"\x00" * 16,
        ]
    )


# --- what a reader finds ---------------------------------------------------------------------


def describe(data: bytes) -> JsonObject:
    """Everything that decoding gives, as plain JSON: each field of each payload, defaults too."""
    decoder = Decoder()
    found = decoder.feed(data)
    tail = decoder.finish()
    events = [item for item in found if isinstance(item, ev.Event)]
    drawn = tree.build((event.event_id, event.parent_id) for event in events)
    return {
        "lines": [_line(item) for item in found],
        "torn_tail": [tail.offset, len(tail.line)] if tail else None,
        "leaf": drawn.leaf,
        "path": tree.path(drawn, drawn.leaf),
        "gaps": plain(drawn.gaps),
        "branches": plain(tuple(tree.branches(drawn))),
    }


def _line(item: ev.Event | CorruptLine) -> object:
    if isinstance(item, CorruptLine):
        # What follows the colon is the decoder's own wording.
        return {
            "offset": item.offset,
            "bytes": len(item.line),
            "corrupt": item.reason.split(":")[0],
        }
    fields = plain(item)
    assert isinstance(fields, dict)
    fields["line"] = sha256(item.line)
    return {"payload_type": type(item.payload).__name__, **fields}


def plain(value: object) -> object:
    if isinstance(value, msgspec.Struct):
        fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        tag = value.__struct_config__.tag
        return {"is": tag, **fields} if tag else fields
    if isinstance(value, bytes | msgspec.Raw):
        return bytes(value).decode("utf-8")
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return value


def dump(value: object) -> bytes:
    return json.dumps(value, indent=1).encode("ascii") + b"\n"


def read_states() -> dict[str, JsonObject]:
    states: dict[str, JsonObject] = json.loads((HERE / "v1-states.json").read_text("utf-8"))
    return states


def make(states: dict[str, JsonObject]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The golden files by name, and the blobs that they refer to by hash."""
    story = whole(states)
    files = {
        "v1-whole.jsonl": b"".join(story.lines),
        "v1-fork.jsonl": b"".join(fork(states).lines),
        "v1-torn.jsonl": torn(story.lines),
        "v1-damaged.jsonl": damaged(story.lines),
    }
    return files, story.blobs


def main() -> None:
    """Write everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--refold", action="store_true", help="compute the folded states anew")
    states = {} if parser.parse_args().refold else read_states()
    files, blobs = make(states)
    (HERE / "v1-states.json").write_bytes(dump(states))
    for name, data in files.items():
        (HERE / name).write_bytes(data)
        (HERE / name).with_suffix(".expected.json").write_bytes(dump(describe(data)))
    store = BlobStore(HERE / "blobs", Disk(), durable=False)
    for data in blobs.values():
        store.put(data)


if __name__ == "__main__":
    main()
