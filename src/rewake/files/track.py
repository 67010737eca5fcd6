"""Finds what calls changed: a scan before each, one after it, and the differences, each told once.

The rules kept here:

- The scan from before is on disk, and the contents with it, before the call may begin; the contents
  from after are blobs before they are named.
- Calls may run at the same time. A difference that shows between two scans belongs to one of the calls
  that were open then: the one that ends with the second scan, else the newest. It is due until that
  call has recorded it, and what is on disk is the state before everything that is due.
- A call that `goes_on` in the background is open for long, and what shows meanwhile may be somebody
  else's. No other call takes that over: it is that call's alone, or nobody's.
- Everything that isn't covered is said: what, and why. Nothing is followed, descended into or kept
  silently in part.
- The tracker writes only into the session's own directory and the blobs.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from rewake.files.compare import Bulk, Comparer, Keeper, Store
from rewake.files.git import Git, GitUnusableError
from rewake.files.git_scan import GitScanner
from rewake.files.look import ABSENT, Entry, Limits, Looker, project_bytes
from rewake.files.names import change, link_target, same, same_content
from rewake.files.table import Table, TableFile
from rewake.files.walk import Walk
from rewake.log.disk import Disk
from rewake.model.content import JsonObject
from rewake.model.events import Change, FileState
from rewake.resume.chain import path_of

_SHOWN_MAX: Final = 20
# What `settings/` keeps out of the repository by itself: nobody's work.
_OWN_IGNORED: Final = re.compile(rb"\.rewake/(\.gitignore|settings\.local\..*|.*\.bak)?")
_NOT_KEPT: Final = "its content was not kept"


class NotCovered(msgspec.Struct, frozen=True):
    """Paths (the first few) that can't be brought back, and why."""

    reason: str
    paths: tuple[str, ...]
    count: int

    def sentence(self) -> str:
        """For the user."""
        more = f" and {self.count - len(self.paths)} more" if self.count > len(self.paths) else ""
        return f"Not covered by file history ({self.reason}): {', '.join(self.paths)}{more}."


class Tracked(msgspec.Struct, frozen=True):
    """What a command changed. `not_covered` names what may have changed besides."""

    changes: tuple[Change, ...] = ()
    not_covered: tuple[NotCovered, ...] = ()

    def details(self) -> JsonObject:
        """The part for `Outcome.details`."""
        if not self.not_covered:
            return {}
        return {"not_covered": msgspec.to_builtins(self.not_covered)}


class _Due(NamedTuple):
    """A path whose difference isn't recorded: which call will, and what the path was.

    A `base` of None is what git has, or nothing where it has none.
    """

    call_id: str
    base: Entry | None


class Tracker:
    """Tracks one project for one session and its sub-agents. Not safe for threads by itself.

    `directory` is the session's place for this; `own` is never tracked (Rewake's home); `extra` gives
    paths to watch although a scan would leave them out, because a tool has edited them.
    """

    def __init__(
        self,
        root: Path,
        directory: Path,
        store: Store,
        *,
        disk: Disk,
        own: Path | None = None,
        extra: Callable[[], Iterable[bytes]] = tuple,
        bulk: Bulk | None = None,
        limits: Limits | None = None,
        sync: bool = True,
    ) -> None:
        self._root = project_bytes(root)
        self._root_path = root
        self._own = os.fsencode(own) if own is not None else None
        self._store = store
        self._bulk = bulk
        self._limits = limits or Limits()
        self.disk = disk
        self._file = TableFile(directory, self._root, disk, sync=sync)
        self._find_extra = extra
        self._extra: frozenset[bytes] | None = None
        self._table: Table | None = None
        self._open: list[str] = []
        self._going_on: set[str] = set()
        self._due: dict[bytes, _Due] = {}
        # What ended calls have claimed, until their outcomes are on record.
        self._claimed: dict[str, dict[bytes, Entry | None]] = {}
        self._git: GitScanner | None = None
        self._git_problem = ""
        self._ignored_told = False
        self._said: set[tuple[str, tuple[str, ...]]] = set()
        self._problems: dict[str, list[bytes]] = {}

    # --- around a call -------------------------------------------------------------------------

    def before(self, call_id: str) -> None:
        """Scan and keep what is there now; durable on return. Raises StorageError."""
        if self._open:
            self._advance(self._open[-1], takes_over=False)
        elif self._claimed and self._table is not None:
            # What isn't on record yet refers to the index as it was taken then.
            self._table = self._scan(self._table, take_index=False)
        else:
            known = self._table
            if known is None:
                known, self._extra = self._remembered()
            self._problems = {}
            self._table = self._scan(known, take_index=True)
        self._write()
        self._open.append(call_id)

    def goes_on(self, call_id: str) -> None:
        """The call itself has ended, what it began goes on: its `after` comes some time later."""
        self._going_on.add(call_id)

    def is_open(self, call_id: str) -> bool:
        """Whether the call has begun here, and its `after` is still to come."""
        return call_id in self._open

    def after(self, call_id: str) -> Tracked:
        """What the call has changed since its `before`. Raises StorageError.

        The contents are blobs on return. Call `recorded` once the changes are on record.
        """
        if self._table is None or call_id not in self._open:
            return Tracked()
        after = self._advance(call_id, takes_over=True)
        bases = {path: due.base for path, due in self._due.items() if due.call_id == call_id}
        comparer = self._comparer()
        changes, missing = comparer.changes(bases, _view(after, bases), after)
        self._claimed[call_id] = bases
        for path in bases:
            del self._due[path]
        self._open.remove(call_id)
        self._going_on.discard(call_id)
        self._note(_NOT_KEPT, missing)
        return Tracked(tuple(changes), self._not_covered())

    def recorded(self, call_id: str) -> None:
        """What `after` or `claim` returned is durable: a recovery need not find it again."""
        claimed = self._claimed.pop(call_id, None)
        if claimed and (self._open or self._claimed):
            self._write()

    def expect(self, changes: Iterable[Change]) -> None:
        """A call is going to make these changes while others run: note what those did until now."""
        table = self._table
        if not self._open or table is None:
            return
        for one in changes:
            path = self._relative(path_of(one))
            if path in table.entries or path in table.clean or one.before.kind == "absent":
                continue
            self._advance(self._open[-1], takes_over=False)
            return

    def claim(self, call_id: str, changes: Sequence[Change]) -> tuple[Change, ...]:
        """A call has made these changes itself, and no other shall have them as its own.

        Returns what open calls had changed on the same paths before; it belongs on record with them.
        """
        table = self._table
        if not self._open or table is None:
            return ()
        comparer = self._comparer()
        looker = Looker(self._store.put, self._limits)
        entries = dict(table.entries)
        claimed: dict[bytes, Entry | None] = {}
        earlier: list[Change] = []
        for one in changes:
            absolute = path_of(one)
            path = self._relative(absolute)
            due = self._due.pop(path, None)
            if due is not None and due.call_id in self._going_on:
                due = None
            base = due.base if due is not None else table.entries.get(path)
            claimed[path] = base
            now = looker.look(absolute)
            # A path that no scan has found may be one that none covers.
            if due is not None or base is not None or path in table.clean:
                view = _view(table, {path: base})
                was = comparer.state(path, view, comparer.keep_objects([path], view))
                found = _with_mode_of(now, one.before)
                if was is not None and not same(was, found):
                    earlier.append(change(absolute, was, found))
            if not same_content(now.state(), one.after):
                # Somebody has changed it again already, and that is due from then on.
                self._due[path] = _Due(self._open[-1], _entry(_with_mode_of(now, one.after)))
            if now is ABSENT and path not in table.clean:
                entries.pop(path, None)
            else:
                entries[path] = now
        self._table = msgspec.structs.replace(table, entries=entries)
        self._claimed[call_id] = claimed
        return () if self._going_on.issuperset(self._open) else tuple(earlier)

    def recover(self) -> Tracked:
        """What has changed since the last `before` of a process that died. Raises StorageError.

        What is there now is what the next `recover` compares with, also in another process.
        """
        found = self._file.read()
        if found is None:
            return Tracked()
        before, self._extra = found
        if not self._prepare_git(before):
            self._note(f"git can't be used: {self._git_problem}", [b"."])
            after = self._without_git(before)
        else:
            after = self._scan(before, take_index=False)
        comparer = self._comparer()
        changes, missing = comparer.changes(comparer.differing(before, after), before, after)
        self._file.write(after, self._extra or frozenset())
        self._note(_NOT_KEPT, missing)
        return Tracked(tuple(changes), self._not_covered())

    def watch(self, paths: Iterable[bytes]) -> None:
        """Watch these absolute paths from now on, whatever git ignores."""
        if self._extra is not None:
            self._extra = self._extra.union(self._relative(path) for path in paths)

    # --- what is due ---------------------------------------------------------------------------

    def _advance(self, call_id: str, *, takes_over: bool) -> Table:
        """Scan while calls are open: what differs since the last scan is due by `call_id`.

        What is due by another call stays its own, unless the call `takes_over` what it finds changed
        again: it is recorded first, and a path's changes must be in the order in which they were made.
        """
        before = self._table or Table()
        after = self._scan(before, take_index=False)
        comparer = self._comparer()
        paths = comparer.differing(before, after)
        comparer.keep_objects(paths, before)
        for path in paths:
            due = self._due.get(path)
            if due is None:
                self._due[path] = _Due(call_id, before.entries.get(path))
            elif takes_over:
                is_theirs = due.call_id in self._going_on and due.call_id != call_id
                self._due[path] = _Due(call_id, before.entries.get(path) if is_theirs else due.base)
        self._table = after
        return after

    def _write(self) -> None:
        """The newest table with everything as it was that isn't on record; durable on return."""
        table = self._table or Table()
        unrecorded: dict[bytes, Entry | None] = {}
        for claimed in self._claimed.values():
            for path, base in claimed.items():
                unrecorded.setdefault(path, base)
        for path, due in self._due.items():
            unrecorded.setdefault(path, due.base)
        if unrecorded:
            entries = dict(table.entries)
            for path, base in unrecorded.items():
                if base is None:
                    entries.pop(path, None)
                else:
                    entries[path] = base
            table = msgspec.structs.replace(table, entries=entries)
        self._file.write(table, self._extra or frozenset())

    def _comparer(self) -> Comparer:
        return Comparer(self._root, self._store, self._bulk, self._limits, self._git)

    def _remembered(self) -> tuple[Table, frozenset[bytes]]:
        """What an earlier process of this session knew, as far as its contents are still kept."""
        found = self._file.read()
        if found is None:
            extra = frozenset(self._relative(path) for path in self._find_extra())
            return Table(), extra
        table, extra = found
        entries = {
            path: entry
            for path, entry in table.entries.items()
            if entry.sha256 is None or entry.oid or self._store.has(entry.sha256)
        }
        return msgspec.structs.replace(table, entries=entries), extra

    def _relative(self, path: bytes) -> bytes:
        prefix = self._root + b"/"
        return path.removeprefix(prefix)

    # --- scanning ------------------------------------------------------------------------------

    def _scan(self, known: Table, *, take_index: bool) -> Table:
        keeper = Keeper(self._store, self._bulk)
        looker = Looker(keeper.put, self._limits)
        table = self._scan_git(looker, known, take_index=take_index)
        if table is None:
            table = self._scan_tree(looker, known)
        keeper.finish()
        for reason, paths in looker.problems.items():
            self._note(reason, paths)
        return table

    def _scan_git(self, looker: Looker, known: Table, *, take_index: bool) -> Table | None:
        if self._git_problem or not os.path.lexists(self._root_path / ".git"):
            return None
        if not take_index and known.kind != "git":
            return None  # both scans of one command must be of the same kind
        try:
            if self._git is None:
                git = Git(self._root_path, self._file.directory / "git", self.disk)
                self._git = GitScanner(git, self._own)
            if take_index:
                self._git.take_index()
            table = self._git.scan(looker, known, self._extra or (), after=not take_index)
        except GitUnusableError as error:
            self._git_problem = str(error)
            return None
        if not take_index:
            self._tell_ignored(self._git.git)
        if self._git.nested:
            self._problems["another repository"] = sorted(self._git.nested)
        return table

    def _tell_ignored(self, git: Git) -> None:
        """Once: what git ignores can have changed without a trace here."""
        if self._ignored_told:
            return
        self._ignored_told = True
        with contextlib.suppress(GitUnusableError):
            ignored = [
                path
                for path in git.ignored()
                if path not in (self._extra or ()) and not _OWN_IGNORED.fullmatch(path)
            ]
            if ignored:
                self._problems["ignored by git"] = sorted(ignored)

    def _without_git(self, before: Table) -> Table:
        """What is there now of the paths that were known without git, whose repository is gone."""
        looker = Looker(self._store.put, self._limits)
        absolute = self._comparer().absolute
        found = {path: looker.look(absolute(path), known) for path, known in before.entries.items()}
        return msgspec.structs.replace(before, entries=found)

    def _prepare_git(self, before: Table) -> bool:
        """Go on with the index that a process which died had taken; False where that can't be."""
        if before.kind == "git":
            try:
                git = Git(self._root_path, self._file.directory / "git", self.disk)
                self._git = GitScanner(git, self._own)
                self._git.go_on(before)
            except GitUnusableError as error:
                self._git_problem = str(error)
                return False
        return True

    def _scan_tree(self, looker: Looker, known: Table) -> Table:
        walk = Walk(self._root, looker, known.entries, self._own)
        walk.run()
        for path in self._extra or ():
            if path not in walk.entries:
                absolute = path if path.startswith(b"/") else self._root + b"/" + path
                if os.path.realpath(os.path.dirname(absolute)) == os.path.dirname(absolute):  # noqa: PTH120  # bytes
                    walk.entries[path] = looker.look(absolute, known.entries.get(path))
        for reason, paths in (("another repository", walk.nested), ("a cache", walk.caches)):
            if paths:
                self._problems[reason] = sorted(paths)
        if walk.cut_off:
            self._problems[f"more than {self._limits.files_max} files"] = [b"."]
        return Table("plain", walk.entries)

    def _note(self, reason: str, paths: Iterable[bytes]) -> None:
        """Paths that aren't covered; both scans of a call may find the same ones."""
        noted = list(dict.fromkeys([*self._problems.get(reason, ()), *paths]))
        if noted:
            self._problems[reason] = noted

    def _not_covered(self) -> tuple[NotCovered, ...]:
        """What hasn't been said before in this session."""
        told = []
        for reason, paths in self._problems.items():
            shown = tuple(
                self._relative(path).decode("utf-8", "replace") for path in paths[:_SHOWN_MAX]
            )
            if (reason, shown) not in self._said:
                self._said.add((reason, shown))
                told.append(NotCovered(reason, shown, len(paths)))
        return tuple(told)


def _view(table: Table, bases: dict[bytes, Entry | None]) -> Table:
    """The table in which only these paths have entries, those given."""
    entries = {path: base for path, base in bases.items() if base is not None}
    return msgspec.structs.replace(table, entries=entries)


def _with_mode_of(now: Entry, state: FileState) -> FileState:
    """A state of a file with a mode: whoever doesn't record modes doesn't change them."""
    if state.kind != "file" or state.mode is not None or now.kind != "file":
        return state
    return msgspec.structs.replace(state, mode=stat.S_IMODE(now.stat[0]))


def _entry(state: FileState) -> Entry:
    """An entry for what a call says that it left, in whose place something else is already."""
    kinds = {"file": stat.S_IFREG, "symlink": stat.S_IFLNK, "directory": stat.S_IFDIR, "absent": 0}
    target = link_target(state) if state.kind == "symlink" else b""
    found = (kinds[state.kind] | (state.mode or 0), state.size, 0, 0, 0)
    return Entry(state.kind, found, settled=False, sha256=state.sha256, target=target)
