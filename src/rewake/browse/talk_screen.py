"""The conversation of a session, item by item, with what can be done at each.

The rule kept here: only items near the selected one are drawn, however long the conversation is; the
contents of a change are read when its call is unfolded.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar, cast

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import Screen
from textual.widgets import Static

from rewake.browse import acts, source
from rewake.browse.draw import draw_item, problems, title_of
from rewake.browse.items import Item
from rewake.browse.key_bar import EVERYWHERE, KeyBar
from rewake.browse.source import Talk
from rewake.errors import RewakeError
from rewake.resume.listing import SessionInfo
from rewake.screentext import one_line

if TYPE_CHECKING:
    from rewake.browse.app import Browser

T = TypeVar("T")
_PREVIEW_LINES_MAX: Final = 12
_WINDOW: Final = 30  # items drawn at once; as many more when the selection comes to an edge
_SAID: Final = frozenset({"prompt", "answer"})


class Block(Static):
    """One item on the screen."""

    def __init__(self, item: Item, place: int) -> None:
        super().__init__(markup=False, classes="item")
        self.set_class(item.kind in _SAID, "-said")
        self.item = item
        self.place = place
        self.unfolded = False
        self.diffs: tuple[str, ...] | None = None

    def draw(self, *, is_dark: bool) -> None:
        """Draw it as it is now."""
        self.update(
            draw_item(
                self.item,
                datetime.now(UTC),
                is_dark=is_dark,
                unfolded=self.unfolded,
                diffs=self.diffs,
            )
        )

    def on_mount(self) -> None:
        """Draw it once it is there."""
        self.draw(is_dark=self.app.current_theme.dark)


class TalkScreen(Screen[None]):
    """Read a conversation; fork or rewind at any message.

    `end_id` is the newest event of a branch that was left, None for the active one. The item of
    `message_id` is selected at first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "fold", "Unfold"),
        Binding("r", "resume", "Resume"),
        Binding("f", "fork", "Fork here"),
        Binding("w", "rewind", "Rewind here"),
        Binding("W", "rewind_files", "Rewind with files", show=False),
        Binding("u", "undo", "Undo rewind", show=False),
        Binding("t", "tree", "Tree"),
        Binding("h", "history", "Whole history", show=False),
        Binding("y", "copy", "Copy id", show=False),
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f", "page(1)", show=False),
        Binding("home", "jump(0)", show=False),
        Binding("end,G", "jump(-1)", show=False),
        Binding("escape,left", "back", "Back"),
    ]

    def __init__(
        self, info: SessionInfo, *, end_id: str | None = None, message_id: str | None = None
    ) -> None:
        super().__init__()
        self._info = info
        self._end_id = end_id
        self._message_id = message_id
        self._is_whole = False
        self._talk = Talk(())
        self._place = -1

    @property
    def browser(self) -> Browser:
        """The application."""
        return cast("Browser", self.app)

    @property
    def _scroll(self) -> VerticalScroll:
        return self.query_one("#talk", VerticalScroll)

    def compose(self) -> ComposeResult:
        with Horizontal(id="top"):
            title = title_of(self._info)
            yield Static(Text(title, no_wrap=True, overflow="ellipsis"), id="where", markup=False)
            yield Static("reading …", id="count", markup=False)
        yield VerticalScroll(id="talk", can_focus=False)
        yield KeyBar(
            ("⏎", "Unfold", "screen.fold"),
            ("r", "Resume", "screen.resume"),
            ("f", "Fork", "screen.fork"),
            ("w", "Rewind", "screen.rewind"),
            ("t", "Tree", "screen.tree"),
            ("Esc", "Back", "screen.back"),
            *EVERYWHERE,
        )

    def on_mount(self) -> None:
        """Read it in the background."""
        self._read()

    def _read(self) -> None:
        self.run_worker(self._show(), group="talk", exclusive=True)

    async def _show(self) -> None:
        browser, end_id = self.browser, self._end_id
        try:
            self._talk = await browser.look(self._reader(end_id))
            if self._message_id is not None and self._first_place() is None:
                # It was compacted away: show the conversation as it was then.
                self._talk = await browser.look(self._reader(self._message_id))
        except RewakeError as error:
            self.query_one("#count", Static).update("")
            await self._scroll.mount(Static(Text(f"{error.message}\n{error.remedy}", "red")))
            return
        items = self._talk.items
        branch = "a branch that was left · " if end_id is not None else ""
        self.query_one("#count", Static).update(f"{branch}{len(items):,} items")
        place = self._first_place()
        await self._draw_around(len(items) - 1 if place is None else place)

    def _reader(self, end_id: str | None) -> Callable[[], Talk]:
        at, info = self.browser.at, self._info
        if self._is_whole and end_id is None:
            return lambda: source.whole_talk(at, info)
        return lambda: source.talk(at, info, end_id)

    def _first_place(self) -> int | None:
        items = enumerate(self._talk.items)
        return next((n for n, item in items if item.message_id == self._message_id), None)

    # --- the window ----------------------------------------------------------------------

    async def _draw_around(self, place: int) -> None:
        """Draw the items around a place anew and select the one there."""
        items, scroll = self._talk.items, self._scroll
        await scroll.remove_children()
        if self._talk.problems:
            await scroll.mount(Static(problems(self._talk.problems), classes="item"))
        if not items:
            await scroll.mount(Static(Text("Nothing was said in this session.", "dim")))
            return
        first = max(min(place - _WINDOW // 2, len(items) - _WINDOW), 0)
        await scroll.mount(*self._blocks(first, first + _WINDOW))
        self._select(place)

    def _blocks(self, first: int, end: int) -> list[Block]:
        chosen = self._talk.items[max(first, 0) : end]
        return [Block(item, max(first, 0) + number) for number, item in enumerate(chosen)]

    @property
    def _drawn(self) -> list[Block]:
        return list(self._scroll.query(Block))

    @property
    def selected(self) -> Block | None:
        """The selected item, if anything is drawn yet."""
        return next((block for block in self._drawn if block.place == self._place), None)

    def _select(self, place: int) -> None:
        self._place = place
        for block in self._drawn:
            block.set_class(block.place == place, "-selected")
        selected = self.selected
        if selected is not None:
            self.call_after_refresh(self._scroll.scroll_to_widget, selected, animate=False)

    async def action_move(self, step: int) -> None:
        """Go to the next item, or scroll where this one goes on beyond the screen."""
        block, scroll = self.selected, self._scroll
        if block is None:
            return
        hidden = (
            block.region.bottom - scroll.region.bottom
            if step > 0
            else scroll.region.y - block.region.y
        )
        if hidden > 0 and block.region.overlaps(scroll.region):
            scroll.scroll_relative(y=step * min(hidden, scroll.size.height // 2), animate=False)
            return
        await self._go(self._place + step)

    async def _go(self, place: int) -> None:
        """Select the item at a place next to what is drawn; draws more where that ends."""
        place = max(0, min(place, len(self._talk.items) - 1))
        drawn = self._drawn
        first, last = drawn[0].place, drawn[-1].place
        if place < first:
            await self._scroll.mount(*self._blocks(first - _WINDOW, first), before=drawn[0])
        elif place > last:
            await self._scroll.mount(*self._blocks(last + 1, last + 1 + _WINDOW))
        self._select(place)

    def action_page(self, pages: int) -> None:
        """A screen up or down; the selection comes along."""
        # What was drawn just now has its place only after the next refresh.
        self.call_after_refresh(self._page, pages)

    async def _page(self, pages: int) -> None:
        scroll, drawn = self._scroll, self._drawn
        if not drawn:
            return
        before = scroll.scroll_offset.y
        scroll.scroll_relative(
            y=pages * max(scroll.size.height - 2, 1), animate=False, immediate=True
        )
        if scroll.scroll_offset.y == before:
            await self._go(drawn[-1 if pages > 0 else 0].place + pages)
            return
        self.call_after_refresh(self._select_visible)

    def _select_visible(self) -> None:
        """Select the first item that begins on the screen, without scrolling to it."""
        top, bottom = self._scroll.region.y, self._scroll.region.bottom
        for block in self._drawn:
            if top <= block.region.y < bottom:
                self._place = block.place
                break
        for block in self._drawn:
            block.set_class(block.place == self._place, "-selected")

    async def action_jump(self, place: int) -> None:
        """To the first item, or to the last for -1."""
        if self._talk.items:
            await self._draw_around(place if place >= 0 else len(self._talk.items) - 1)

    def on_click(self, event: events.Click) -> None:
        """Select what was clicked, and fold or unfold it."""
        block = event.widget
        if isinstance(block, Block):
            self._place = block.place
            for other in self._drawn:
                other.set_class(other is block, "-selected")
            self.action_fold()

    # --- folding -------------------------------------------------------------------------

    def action_fold(self) -> None:
        """Unfold the selected item, or fold it again."""
        block = self.selected
        if block is None or not block.item.is_foldable:
            return
        block.unfolded = not block.unfolded
        block.draw(is_dark=self.browser.is_dark)
        if block.unfolded and block.item.call is not None and block.diffs is None:
            self.run_worker(self._read_diffs(block), group="diffs")

    async def _read_diffs(self, block: Block) -> None:
        browser, info = self.browser, self._info
        try:
            block.diffs = await browser.look(lambda: source.diffs(browser.at, info, block.item))
        except RewakeError as error:
            block.diffs = ()
            browser.tell_error(error)
        block.draw(is_dark=browser.is_dark)
        self.call_after_refresh(self._scroll.scroll_to_widget, block, animate=False)

    # --- keys ----------------------------------------------------------------------------

    def action_back(self) -> None:
        """Back to where it was opened from."""
        self.dismiss(None)

    def action_copy(self) -> None:
        """Copy the id of the message."""
        self._at_message(self.browser.copy)

    def action_history(self) -> None:
        """Also what was said before compactions, or only what the model still has."""
        block = self.selected
        self._message_id = block.item.message_id if block is not None else None
        self._is_whole = not self._is_whole
        self._read()

    def action_tree(self) -> None:
        """See the branches."""
        from rewake.browse.tree_screen import TreeScreen

        self.browser.push_screen(TreeScreen(self._info))

    def _at_message(self, act: Callable[[str], None]) -> None:
        block = self.selected
        if block is not None and block.item.message_id:
            act(block.item.message_id)

    def action_resume(self) -> None:
        """Leave, to go on with the session; a branch that was left is taken up again first."""
        browser, info, end_id = self.browser, self._info, self._end_id
        if end_id is None:
            browser.resume(info.session_id)
            return
        self._confirm(
            "Take up this branch again?",
            "The branch that is active now is left, and stays in the tree.",
            lambda: acts.rewind(browser.at, info, end_id),
            lambda _: browser.resume(info.session_id),
        )

    def action_fork(self) -> None:
        """Make a session that goes on after the selected message."""
        browser, info = self.browser, self._info

        def forked(session_id: str) -> None:
            browser.tell(f"Forked as {session_id}; it is in the list.")
            browser.changed(session_id)

        self._at_message(
            lambda message_id: browser.change(
                lambda: acts.fork(browser.at, info, message_id), forked
            )
        )

    def action_rewind(self) -> None:
        """Go back to just after the selected message."""
        browser, info = self.browser, self._info

        def ask(message_id: str) -> None:
            self._confirm(
                "Rewind to the selected message?",
                "What was said after it is left as a branch of its own; u takes it back."
                " Files stay as they are (W takes them along).",
                lambda: acts.rewind(browser.at, info, message_id),
                lambda _: self._rewound("Rewound; u takes it back."),
            )

        self._at_message(ask)

    def action_rewind_files(self) -> None:
        """Go back to just after the selected message, with the files, once the preview was seen."""
        browser, info = self.browser, self._info

        def ask(message_id: str) -> None:
            browser.change(
                lambda: acts.preview_of_files(browser.at, info, message_id),
                lambda lines: self._confirm(
                    "Rewind to the selected message, and take the files back?",
                    _shortened(lines),
                    lambda: acts.rewind_with_files(browser.at, info, message_id),
                    self._rewound,
                ),
            )

        self._at_message(ask)

    def action_undo(self) -> None:
        """Undo the newest rewind; where files come again, once the preview was seen."""
        browser, info = self.browser, self._info

        def ask(lines: list[str]) -> None:
            if not lines:
                browser.change(lambda: acts.undo_rewind(browser.at, info), self._rewound)
                return
            self._confirm(
                "Undo the newest rewind, with its files?",
                _shortened(lines),
                lambda: acts.undo_rewind(browser.at, info),
                self._rewound,
            )

        browser.change(lambda: acts.undo_takes_files(browser.at, info), ask)

    def _rewound(self, note: str) -> None:
        self.browser.tell(note)
        self.browser.changed(self._info.session_id)
        self._end_id = self._message_id = None
        self._read()

    def _confirm(
        self, question: str, explanation: str, act: Callable[[], T], then: Callable[[T], None]
    ) -> None:
        from rewake.browse.dialogs import Confirm

        def answered(is_sure: bool | None) -> None:  # noqa: FBT001  # the toolkit calls it so
            if is_sure:
                self.browser.change(act, then)

        self.browser.push_screen(Confirm(one_line(question), explanation), answered)


def _shortened(lines: list[str]) -> str:
    """As much of a preview as a dialog has room for."""
    more = len(lines) - _PREVIEW_LINES_MAX
    shown = lines if more <= 0 else [*lines[:_PREVIEW_LINES_MAX], f"… and {more} more lines"]
    return "\n".join(shown)
