"""Every error that Rewake raises on purpose, with what to do about it and the exit code it means.

The rule kept here: a message says what happened, where (path, offset), and ends with a remedy in
one sentence. The command line maps an error to its process exit status by `exit_code` alone.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar


class ExitCode(IntEnum):
    """Exit statuses of the `rewake` command; documented in docs/guide/cli.md."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    BUSY = 3
    NOT_FOUND = 4
    STORAGE = 5
    DAMAGED = 6
    MODEL = 7
    UNCERTAIN = 8
    SETTINGS = 9
    LIMIT = 10
    UNFINISHED = 11
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


class RewakeError(Exception):
    """Base of all errors here. `remedy` is one sentence that tells the user what to do next."""

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".rstrip()


class UsageError(RewakeError):
    """A command or call whose arguments can't be used as they are."""

    exit_code = ExitCode.USAGE


class InvalidValueError(UsageError):
    """A value that no transcript line can hold (a non-finite number, an object that isn't JSON)."""


class SessionBusyError(RewakeError):
    """Another process writes this session; `holder` describes it as far as its lock file tells."""

    exit_code = ExitCode.BUSY

    def __init__(
        self, message: str, *, holder: str, remedy: str, session_id: str | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.holder = holder
        self.session_id = session_id


class BusyError(RewakeError):
    """Another process has been changing the same thing for longer than it is worth waiting."""

    exit_code = ExitCode.BUSY


class LockUnsupportedError(RewakeError):
    """The file system has no working `flock`; Rewake never falls back to a weaker lock."""

    exit_code = ExitCode.STORAGE


class SessionNotFoundError(RewakeError):
    """No session, or more than one, fits what was asked for; `candidates` lists the near ones."""

    exit_code = ExitCode.NOT_FOUND

    def __init__(self, message: str, *, candidates: tuple[str, ...] = (), remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.candidates = candidates


class NoteNotFoundError(RewakeError):
    """No note of memory has this name, or what has it is no note."""

    exit_code = ExitCode.NOT_FOUND


class NoteConflictError(RewakeError):
    """A note is not as its writer saw it; nothing was written."""

    exit_code = ExitCode.BUSY


class StorageError(RewakeError):
    """A fact could not be recorded (disk full, I/O error). Nothing acknowledged before is lost."""

    exit_code = ExitCode.STORAGE

    def __init__(self, message: str, *, path: str, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.path = path


class PoisonedError(StorageError):
    """An earlier write of this session failed or was cut short; this process must not go on."""


class UnreadableVersionError(RewakeError):
    """The transcript asks for a newer reader than this one (`min_reader_version`)."""

    exit_code = ExitCode.DAMAGED


class DamagedError(RewakeError):
    """Damage that leaves nothing to load (a directory where a transcript should be, and the like)."""

    exit_code = ExitCode.DAMAGED


class ModelError(RewakeError):
    """The model's provider refused or failed; `status` is its HTTP status where there was one.

    `retry_after_s` is how long the provider asked to be left alone, in seconds. Without a `remedy`
    the status decides on one.
    """

    exit_code = ExitCode.MODEL

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retryable: bool = False,
        retry_after_s: float | None = None,
        remedy: str = "",
    ) -> None:
        super().__init__(message, remedy=remedy or _remedy_for(status))
        self.status = status
        self.retryable = retryable
        self.retry_after_s = retry_after_s


def _remedy_for(status: int | None) -> str:
    """What usually helps, where the provider's answer doesn't tell more than its HTTP status."""
    match status:
        case 400 | 422:
            return "Ask in other words, or use another model."
        case 401 | 403:
            return "Check the key in the environment."
        case 404:
            return "Check the model's name."
        case 413:
            return "Compact the conversation, or start a new session."
        case 429:
            return "Wait a while, or use another model."
        case _:
            return "Try again, or use another model."


class PromptTooLongError(ModelError):
    """The request doesn't fit the model's context; the loop compacts and tries again."""


class UncertainError(RewakeError):
    """`--on-unknown stop`: an interrupted action can't be settled by evidence."""

    exit_code = ExitCode.UNCERTAIN

    def __init__(self, message: str, *, remedy: str, session_id: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.session_id = session_id


class SettingsError(RewakeError):
    """A settings file or key that can't be used; names the file, the key and what was expected.

    `line` and `column` count from 1 and are 0 where there is no file or no place in it.
    """

    exit_code = ExitCode.SETTINGS

    def __init__(
        self,
        message: str,
        *,
        remedy: str = "",
        file: str = "",
        line: int = 0,
        column: int = 0,
        key: str = "",
        expected: str = "",
        found: str = "",
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.file = file
        self.line = line
        self.column = column
        self.key = key
        self.expected = expected
        self.found = found


class TelemetryError(RewakeError):
    """Spans or metrics that could not be sent; the session itself has lost nothing."""


class CatalogueUnusableError(RewakeError):
    """The catalogue can't be read or written here and now; the files answer instead."""


class SearchUnavailableError(RewakeError):
    """This Python's SQLite has no full-text search."""
