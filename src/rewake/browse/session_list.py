"""The list of sessions: draws only the rows on the screen, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from rewake.browse.draw import STATE_MARKS, title_of
from rewake.resume.listing import SessionInfo
from rewake.screentext import age, fit, one_line, width

_AGE_COLUMNS: Final = 8
_PROJECT_COLUMNS_MIN: Final = 70  # narrower than this a row has no room to name its project


class SessionList(ScrollView, can_focus=True):
    """Rows of sessions with a cursor; by keyboard, wheel and mouse."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"session-list--cursor", "session-list--hover"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", show=False),
        Binding("down,j", "move(1)", show=False),
        Binding("pageup,ctrl+b", "page(-1)", show=False),
        Binding("pagedown,ctrl+f,space", "page(1)", show=False),
        Binding("home", "jump(0)", show=False),
        Binding("end,G", "jump(-1)", show=False),
    ]

    cursor: reactive[int] = reactive(0, repaint=False, init=False)

    class Highlighted(Message):
        """The cursor stands on another session now; None when there is none."""

        def __init__(self, info: SessionInfo | None) -> None:
            super().__init__()
            self.info = info

    class Chosen(Message):
        """A session was clicked twice."""

    def __init__(self, *, with_project: bool, widget_id: str) -> None:
        super().__init__(id=widget_id)
        self.with_project = with_project
        self._shown: Sequence[SessionInfo] = ()
        self._told: SessionInfo | None = None
        self._now = datetime.now(UTC)

    # --- what is shown -------------------------------------------------------------------

    @property
    def selected(self) -> SessionInfo | None:
        """The session under the cursor."""
        return self._shown[self.cursor] if self.cursor < len(self._shown) else None

    def show(self, sessions: Sequence[SessionInfo], *, keep: str | None) -> None:
        """Show these; the cursor stays on the session with the id `keep` if it is among them."""
        self._shown = sessions
        self._now = datetime.now(UTC)
        ids = (row for row, info in enumerate(sessions) if info.session_id == keep)
        place = next(ids, 0) if keep is not None else 0
        self.virtual_size = Size(self.size.width, len(sessions))
        self.set_reactive(SessionList.cursor, place)
        self._reveal()
        self.refresh()
        self._tell()

    def _tell(self) -> None:
        found = self.selected
        if found is not self._told:
            self._told = found
            self.post_message(self.Highlighted(found))

    def on_resize(self) -> None:
        """Rows are as wide as the list."""
        self.virtual_size = Size(self.size.width, len(self._shown))
        self._reveal()

    def render_line(self, y: int) -> Strip:
        """One row; nothing below the last."""
        columns = self.size.width
        place = y + int(self.scroll_offset.y)
        if place >= len(self._shown):
            return Strip.blank(columns, self.rich_style)
        style = self.rich_style
        if place == self.cursor:
            style = self.get_component_rich_style("session-list--cursor")
            if not self.has_focus:
                style += Style(dim=True)
        text = self._row(self._shown[place], columns)
        text.style = style
        segments = list(Segment.apply_style(text.render(self.app.console, end=""), None))
        return Strip(segments).adjust_cell_length(columns, style)

    def _row(self, info: SessionInfo, columns: int) -> Text:
        mark, colour = STATE_MARKS[info.state]
        tail = f"{age(info.updated_at, self._now):>{_AGE_COLUMNS}} "
        tags = "".join(f" #{one_line(tag)}" for tag in info.tags)
        where = ""
        if self.with_project and columns >= _PROJECT_COLUMNS_MIN:
            where = fit(one_line(info.project).rsplit("/", 1)[-1], columns // 5)
        room = max(columns - 3 - len(tail), 4)
        tags = fit(tags, room // 2) if tags else ""
        used = (width(tags) + 1 if tags else 0) + (width(where) + 2 if where else 0)
        title = fit(title_of(info), max(room - used, 4))
        row = Text.assemble((f" {mark} ", colour), title, no_wrap=True, end="")
        if tags:
            row.append(f" {tags}", "magenta")
        row.append(" " * max(columns - row.cell_len - width(where) - len(tail), 0))
        row.append(where, "dim")
        row.append(tail, "dim")
        return row

    # --- moving --------------------------------------------------------------------------

    def validate_cursor(self, place: int) -> int:
        """Within the list."""
        return max(0, min(place, len(self._shown) - 1))

    def watch_cursor(self, old: int, new: int) -> None:
        """Draw the two rows that changed and say where the cursor is."""
        del old, new
        self._reveal()
        self.refresh()
        self._tell()

    def _reveal(self) -> None:
        self.scroll_to_region(Region(0, self.cursor, 1, 1), animate=False, force=True)

    def action_move(self, rows: int) -> None:
        """Move the cursor by rows."""
        self.cursor += rows

    def action_page(self, pages: int) -> None:
        """Move the cursor by screens."""
        self.cursor += pages * max(self.size.height - 1, 1)

    def action_jump(self, place: int) -> None:
        """Move the cursor to the first row, or to the last one for -1."""
        self.cursor = place if place >= 0 else len(self._shown) - 1

    async def _on_click(self, event: events.Click) -> None:
        place = event.y + int(self.scroll_offset.y)
        if place < len(self._shown):
            self.cursor = place
            if event.chain > 1:
                self.post_message(self.Chosen())

    def watch_has_focus(self, value: bool) -> None:  # noqa: FBT001  # the toolkit calls it so
        """The cursor looks different without the focus."""
        super().watch_has_focus(value)
        self.refresh()
