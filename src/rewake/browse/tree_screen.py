"""The tree of a session: its active branch as a line of prompts, and the branches that were left."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Static, Tree
from textual.widgets.tree import TreeNode

from rewake.browse import source
from rewake.browse.draw import title_of
from rewake.browse.key_bar import EVERYWHERE, KeyBar
from rewake.browse.lanes import Lane, Lanes
from rewake.browse.talk_screen import TalkScreen
from rewake.errors import RewakeError
from rewake.resume.listing import SessionInfo
from rewake.screentext import age, one_line

if TYPE_CHECKING:
    from rewake.browse.app import Browser


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a row leads to: a branch (`end_id` None: the active one) and a message in it."""

    end_id: str | None
    message_id: str | None


class Branches(Tree[Spot]):
    """The toolkit's tree; a click or Enter looks into what is selected, without folding it."""

    auto_expand = False


class TreeScreen(Screen[None]):
    """Choose a branch or a prompt to look at."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,left", "back", "Back"),
    ]

    def __init__(self, info: SessionInfo) -> None:
        super().__init__()
        self._info = info

    @property
    def browser(self) -> Browser:
        """The application."""
        return cast("Browser", self.app)

    def compose(self) -> ComposeResult:
        with Horizontal(id="top"):
            title = f"Tree of {title_of(self._info)}"
            yield Static(Text(title, no_wrap=True, overflow="ellipsis"), id="where", markup=False)
            yield Static("reading …", id="count", markup=False)
        yield Branches("", id="branches")
        yield KeyBar(
            ("⏎", "Look", "screen.look"),
            ("Space", "Fold", "screen.fold"),
            ("Esc", "Back", "screen.back"),
            *EVERYWHERE,
        )

    def on_mount(self) -> None:
        """Read it in the background."""
        tree = self.query_one(Branches)
        tree.show_root = False
        tree.guide_depth = 3
        tree.focus()
        self.run_worker(self._show(), exclusive=True)

    async def _show(self) -> None:
        browser, info = self.browser, self._info
        tree, count = self.query_one(Branches), self.query_one("#count", Static)
        try:
            found = await browser.look(lambda: source.lanes(browser.at, info))
        except RewakeError as error:
            count.update("")
            tree.root.add_leaf(Text(one_line(f"{error.message} {error.remedy}"), "red"))
            tree.root.expand()
            return
        left = self._fill(tree.root, found)
        count.update(f"{left} left branch{'es' * (left != 1)}")
        tree.root.expand_all()
        last = tree.last_line
        self.call_after_refresh(setattr, tree, "cursor_line", last)

    def _fill(self, root: TreeNode[Spot], found: Lanes) -> int:
        if found.forked_from is not None:
            origin = one_line(found.forked_from.session_id)
            root.add_leaf(Text(f"forked from {origin}", "dim italic"))
        if found.active is None:
            root.add_leaf(Text("Nothing was recorded yet.", "dim"))
            return 0
        left = _add_lane(root, found.active, None, datetime.now(UTC))
        last = one_line(found.active.last.text) or "(no words)"
        label = Text.assemble(("● here  ", "bold green"), (last, "dim"), no_wrap=True)
        root.add_leaf(label, Spot(None, None))
        return left

    def on_tree_node_selected(self, event: Tree.NodeSelected[Spot]) -> None:
        """Look at it."""
        event.stop()
        spot = event.node.data
        if spot is not None:
            self.browser.push_screen(
                TalkScreen(self._info, end_id=spot.end_id, message_id=spot.message_id)
            )

    def action_back(self) -> None:
        """Back to where it was opened from."""
        self.dismiss(None)

    def action_look(self) -> None:
        """Look at what is selected."""
        self.query_one(Branches).action_select_cursor()

    def action_fold(self) -> None:
        """Fold or unfold what is selected."""
        self.query_one(Branches).action_toggle_node()


def _add_lane(parent: TreeNode[Spot], lane: Lane, end_id: str | None, now: datetime) -> int:
    """Add a lane's prompts with the lanes that left it; returns how many those are."""
    left = sum(_add_left(parent, other, now) for other in lane.left)
    for stop in lane.stops:
        words = one_line(stop.said.text) or "(no words)"
        label = Text.assemble(
            ("○ ", "green"), words, (f"  {age(stop.said.timestamp, now)}", "dim"), no_wrap=True
        )
        spot = Spot(end_id, stop.event_id)
        if not stop.left:
            parent.add_leaf(label, spot)
            continue
        node = parent.add(label, spot)
        left += sum(_add_left(node, other, now) for other in stop.left)
    return left


def _add_left(parent: TreeNode[Spot], lane: Lane, now: datetime) -> int:
    many = f"{lane.messages} message{'s' * (lane.messages != 1)}"
    label = Text.assemble(
        ("⎇ left  ", "yellow"),
        one_line(lane.last.text) or "(no words)",
        (f"  {many}, {age(lane.last.timestamp, now)}", "dim"),
        no_wrap=True,
    )
    spot = Spot(lane.leaf_id, None)
    if not lane.stops and not lane.left:
        parent.add_leaf(label, spot)
        return 1
    return 1 + _add_lane(parent.add(label, spot), lane, lane.leaf_id, now)
