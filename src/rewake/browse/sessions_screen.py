"""The first screen: the list of sessions with its filter, and a preview of the one selected.

The rules kept here: the screen is there before anything is read; the newest page comes first and the
rest behind it; and a preview is begun only for a session on which the cursor rests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final, cast

from rich.console import Group, RenderableType
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import Input, Static

from rewake.browse import source
from rewake.browse.draw import counted, head, preview, problems, title_of
from rewake.browse.items import Item
from rewake.browse.key_bar import EVERYWHERE, KeyBar
from rewake.browse.session_list import SessionList
from rewake.errors import RewakeError
from rewake.resume.listing import SessionInfo, tags_of
from rewake.screentext import fit, one_line

if TYPE_CHECKING:
    from rewake.browse.app import Browser

_PAGE: Final = 100  # more than a screen
_REST_S: Final = 0.06  # how long the cursor stays on a session before it is looked into
_PREVIEW_ITEMS: Final = 12


class SessionsScreen(Screen[None]):
    """Find a session and say what to do with it."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012  # as the toolkit has it
    VERTICAL_BREAKPOINTS = [(0, "-short"), (16, "-tall")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open"),
        Binding("r", "resume", "Resume"),
        Binding("f", "fork", "Fork"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("n", "name", "Name"),
        Binding("g", "tags", "Tags"),
        Binding("t", "tree", "Tree"),
        Binding("o,right", "open", "Open", show=False),
        Binding("y", "copy", "Copy id", show=False),
        Binding("a", "everywhere", "All projects", show=False),
        Binding("x", "export", "Export", show=False),
        Binding("d,delete", "delete", "Delete", show=False),
        Binding("f5", "reload", "Reload", show=False),
        Binding("up", "move(-1)", show=False),
        Binding("down", "move(1)", show=False),
        Binding("K,shift+up", "scroll_look(-1)", show=False),
        Binding("J,shift+down", "scroll_look(1)", show=False),
        Binding("escape", "back", "Back", show=False),
    ]

    def __init__(self, *, everywhere: bool, picks: bool) -> None:
        super().__init__()
        self._everywhere = everywhere
        self._picks = picks
        self._sessions: list[tuple[str, SessionInfo]] = []
        self._total = 0

    @property
    def browser(self) -> Browser:
        """The application."""
        return cast("Browser", self.app)

    def compose(self) -> ComposeResult:
        with Horizontal(id="top"):
            yield Static(id="where", markup=False)
            yield Static("reading …", id="count", markup=False)
        yield Input(placeholder="/ to filter", id="filter", compact=True)
        with Container(id="body"):
            yield SessionList(with_project=self._everywhere, widget_id="sessions")
            with VerticalScroll(id="look", can_focus=False):
                yield Static(id="preview", markup=False)
        yield KeyBar(
            ("⏎", "Choose" if self._picks else "Open", "screen.choose"),
            ("r", "Resume", "screen.resume"),
            ("f", "Fork", "screen.fork"),
            ("/", "Filter", "screen.filter"),
            ("n", "Name", "screen.name"),
            ("g", "Tags", "screen.tags"),
            ("t", "Tree", "screen.tree"),
            *EVERYWHERE,
        )

    def on_mount(self) -> None:
        """Show the empty list at once; what belongs into it is read afterwards."""
        self._list.focus()
        self._tell_where()
        self.reload(keep=None)

    @property
    def _list(self) -> SessionList:
        return self.query_one(SessionList)

    def _tell_where(self) -> None:
        what = "Resume which session" if self._picks else "Sessions"
        where = "all projects" if self._everywhere else one_line(str(self.browser.at.root))
        self.query_one("#where", Static).update(
            Text(f"{what} · {where}", no_wrap=True, overflow="ellipsis")
        )

    # --- the list ------------------------------------------------------------------------

    def reload(self, keep: str | None) -> None:
        """Read the list again; the cursor stays on the session `keep`."""
        self.run_worker(self._read(keep), group="list", exclusive=True)

    async def _read(self, keep: str | None) -> None:
        at, everywhere = self.browser.at, self._everywhere
        limits = (_PAGE, None) if not self._sessions else (None,)
        for limit in limits:
            try:
                listed = await asyncio.to_thread(
                    source.rows, at, everywhere=everywhere, limit=limit
                )
            except RewakeError as error:
                self.browser.tell_error(error)
                return
            self._sessions = [(_haystack(info), info) for info in listed.rows]
            self._total = listed.total
            found = self._list.selected
            self._show(keep or (found.session_id if found is not None else None))
            if len(listed.rows) == listed.total:
                return

    def _show(self, keep: str | None) -> None:
        words = self.query_one(Input).value.casefold().split()
        shown = [info for text, info in self._sessions if all(word in text for word in words)]
        self._list.show(shown, keep=keep)
        self.query_one("#count", Static).update(self._counted(len(shown), is_filtered=bool(words)))
        if not shown:
            self._tell_nothing(is_filtered=bool(words))

    def _counted(self, shown: int, *, is_filtered: bool) -> str:
        if len(self._sessions) < self._total:
            return f"{shown:,} of {self._total:,} …"
        if is_filtered:
            return f"{shown:,} of {self._total:,}"
        return f"{self._total:,} session{'s' * (self._total != 1)}"

    def _tell_nothing(self, *, is_filtered: bool) -> None:
        if is_filtered:
            text = "No session has all of these words. Esc clears the filter."
        elif self._everywhere:
            text = "No sessions yet. Start one with: rewake"
        else:
            text = "No sessions in this project yet. a shows those of all projects."
        self._draw(Text(text, "dim"))

    @on(Input.Changed)
    def _filter(self) -> None:
        found = self._list.selected
        self._show(found.session_id if found is not None else None)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self._list.focus()
        self.action_choose()

    # --- the preview ---------------------------------------------------------------------

    @on(SessionList.Highlighted)
    def _highlighted(self, event: SessionList.Highlighted) -> None:
        if event.info is not None:
            self.run_worker(self._look(event.info), group="look", exclusive=True)

    async def _look(self, info: SessionInfo) -> None:
        # Where the list is above, it shows the title in all its width.
        is_wide = self.has_class("-wide")
        self._draw(head(info, datetime.now(UTC), with_title=is_wide))
        await asyncio.sleep(_REST_S)
        if info.problem is not None or not self.query_one("#look").display:
            return
        browser = self.browser
        now, is_dark = datetime.now(UTC), browser.is_dark

        def read() -> Group:
            talk = source.talk(browser.at, info)
            parts: list[RenderableType] = [
                head(info, now, with_title=is_wide, messages=talk.messages)
            ]
            if talk.problems:
                parts.append(problems(talk.problems))
            shown = _last_exchange(talk.items)
            left_out = len(talk.items) - len(shown)
            if left_out > 0:
                parts.append(Text(f"\n… {counted(left_out, 'item')} before", "dim italic"))
            parts.append(preview(shown, now, is_dark=is_dark))
            return Group(*parts)

        try:
            drawn = await browser.look(read)
        except RewakeError as error:
            drawn = Group(
                head(info, now, with_title=is_wide), Text(f"\n{one_line(str(error))}", "red")
            )
        self._draw(drawn)

    def _draw(self, what: RenderableType) -> None:
        self.query_one("#preview", Static).update(what)
        self.query_one("#look", VerticalScroll).scroll_home(animate=False)

    # --- keys ----------------------------------------------------------------------------

    def action_move(self, rows: int) -> None:
        """Move in the list while the filter has the focus."""
        self._list.action_move(rows)

    def action_scroll_look(self, direction: int) -> None:
        """Scroll the preview by half of its height."""
        look = self.query_one("#look", VerticalScroll)
        look.scroll_relative(y=direction * max(look.size.height // 2, 1), animate=False)

    def action_filter(self) -> None:
        """Type a filter."""
        self.query_one(Input).focus()

    def action_back(self) -> None:
        """Leave the filter, else the picker."""
        typed = self.query_one(Input)
        if typed.value or typed.has_focus:
            typed.value = ""
            self._list.focus()
        elif self._picks:
            self.browser.action_leave()

    @on(SessionList.Chosen)
    def action_choose(self) -> None:
        """Choose it in the picker, look into it in the browser."""
        if self._picks:
            self.action_resume()
        else:
            self.action_open()

    def action_open(self) -> None:
        """Look into the session."""
        from rewake.browse.talk_screen import TalkScreen

        self._with_selected(lambda info: self.browser.push_screen(TalkScreen(info)))

    def action_tree(self) -> None:
        """See its branches."""
        from rewake.browse.tree_screen import TreeScreen

        self._with_selected(lambda info: self.browser.push_screen(TreeScreen(info)))

    def action_resume(self) -> None:
        """Leave, to go on with it."""
        self._with_selected(lambda info: self.browser.resume(info.session_id))

    def action_copy(self) -> None:
        """Copy its id."""
        self._with_selected(lambda info: self.browser.copy(info.session_id))

    def action_everywhere(self) -> None:
        """Those of all projects, or only of this one."""
        self._everywhere = not self._everywhere
        self._list.with_project = self._everywhere
        self._sessions = []
        self._tell_where()
        self.action_reload()

    def action_reload(self) -> None:
        """Read the list again."""
        self.reload(keep=None)

    def _with_selected(self, act: Callable[[SessionInfo], object]) -> None:
        info = self._list.selected
        if info is not None:
            act(info)

    # --- changes -------------------------------------------------------------------------

    def action_fork(self) -> None:
        """Make a session that goes on from the end of this one."""
        from rewake.browse import acts

        browser = self.browser

        def forked(session_id: str) -> None:
            browser.tell(f"Forked as {session_id}; r resumes it.")
            browser.changed(session_id)

        self._with_selected(
            lambda info: browser.change(lambda: acts.fork(browser.at, info, None), forked)
        )

    def action_name(self) -> None:
        """Give it a title."""
        from rewake.browse import acts

        def ask(info: SessionInfo) -> None:
            self._ask(
                info,
                "Title of this session",
                one_line(info.title),
                lambda text: acts.rename(self.browser.at, info, text),
            )

        self._with_selected(ask)

    def action_tags(self) -> None:
        """Give it tags."""
        from rewake.browse import acts

        def ask(info: SessionInfo) -> None:
            self._ask(
                info,
                "Tags, with commas between them",
                ", ".join(one_line(tag) for tag in info.tags),
                lambda text: acts.set_tags(self.browser.at, info, tags_of(text)),
            )

        self._with_selected(ask)

    def _ask(
        self, info: SessionInfo, question: str, value: str, act: Callable[[str], None]
    ) -> None:
        from rewake.browse.dialogs import Ask

        browser = self.browser

        def answered(text: str | None) -> None:
            if text is not None and text != value:
                browser.change(lambda: act(text), lambda _: browser.changed(info.session_id))

        browser.push_screen(Ask(question, value), answered)

    def action_export(self) -> None:
        """Export it."""
        from rewake.browse import acts
        from rewake.browse.dialogs import Ask

        browser = self.browser

        def ask(info: SessionInfo) -> None:
            def answered(name: str | None) -> None:
                if name is not None and name.strip():
                    browser.change(
                        lambda: acts.export(browser.at, info, name.strip()), browser.tell
                    )

            name = f"{one_line(info.session_id)}.rewake.tar.zst"
            hint = "Enter writes it. A name in .md gets Markdown, one in .json ATIF."
            browser.push_screen(Ask("Export to", name, hint), answered)

        self._with_selected(ask)

    def action_delete(self) -> None:
        """Move it to the trash."""
        from rewake.browse import acts
        from rewake.browse.dialogs import Confirm

        browser = self.browser

        def deleted(_: None) -> None:
            browser.tell("It is in the trash: rewake trash")
            self.action_reload()

        def ask(info: SessionInfo) -> None:
            def answered(is_sure: bool | None) -> None:  # noqa: FBT001  # the toolkit calls it so
                if is_sure:
                    browser.change(lambda: acts.delete(browser.at, info), deleted)

            question = f"Delete “{fit(title_of(info), 60)}”?"
            explanation = "It goes to the trash; rewake trash restore brings it back."
            browser.push_screen(Confirm(question, explanation), answered)

        self._with_selected(ask)


def _last_exchange(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The newest prompt with what came of it, as far as there is room for that."""
    last = items[-_PREVIEW_ITEMS:]
    prompts = (place for place in reversed(range(len(last))) if last[place].kind == "prompt")
    return last[next(prompts, 0) :]


def _haystack(info: SessionInfo) -> str:
    """All that a filter looks at."""
    parts = (info.title, info.first_prompt, info.last_prompt, info.project, info.branch)
    return "\n".join((*parts, *info.tags, info.session_id, info.state)).casefold()
