"""Secrets taken out of what a session records, before it is recorded.

The rule kept here: the words go, the structure stays. Paths, ids, hashes and what a checkpoint carries
are what a resume works with, so no suspicion changes them; the arguments of a call are words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rewake.redaction.redactor import Redactor

_STRUCTURE: Final = frozenset(
    {"path", "path_base64", "target", "target_base64", "target_id", "cwd", "output_directory"}
    | {"provider_call_id", "agent_id", "tool_name", "idempotency_key", "state", "history"}
)
_ARGUMENTS: Final = "arguments"


class TranscriptRedactor(Redactor):
    """Redacts payloads of events. `environ` is where values of variables that look like keys stand."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        super().__init__(environ)
        self._words = Redactor(environ, detector=self.detector)

    def _member(self, key: str, value: object) -> object:
        if key in _STRUCTURE:
            return value
        if key == _ARGUMENTS:
            return self._words.value(value)
        return super()._member(key, value)
