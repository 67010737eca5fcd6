"""Whatever a session holds is inert in the page: seen, and nothing else."""

from __future__ import annotations

import base64
import html
import json
import re
import zlib
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.report.attacks import ALL, NAMES, RUN, attacked
from tests.report.conftest import Watched
from tests.report.seed import ReportSeed

import rewake
from rewake.compose.viewing import LiveView
from rewake.model.content import Text, ToolCall
from rewake.model.events import Change, FileState, ToolLifecycle
from rewake.report.clean import Cleaner, name_warnings, visible

TABS = ("files", "interrupted", "agents", "runs", "health")


def look_at_everything(page: Page) -> None:
    page.get_by_role("button", name="Unfold all").click()
    expect(page.locator(".fold-body").first).to_be_visible()
    for part in range(0, 101, 10):
        page.evaluate(f"scrollTo(0, document.documentElement.scrollHeight * {part} / 100)")
        expect(page.locator(".row.waiting")).to_have_count(0)
    for name in TABS:
        page.locator(f"#tab-{name}").click()
        expect(page.locator(f"#panel-{name} > *").first).to_be_attached()
    page.locator("#tab-files").click()
    for summary in page.locator("details.file summary").all():
        summary.click()
    page.keyboard.press("/")
    page.locator("#search").fill(RUN)
    expect(page.locator(".hit-count")).to_contain_text(" of ")


def assert_inert(page: Page, watched: Watched) -> None:
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.evaluate("typeof ({}).polluted") == "undefined"
    assert watched.said == []
    tags = "script, iframe, object, embed, link, base, form, svg *, meta[http-equiv=refresh]"
    found = page.evaluate(
        f"[...document.querySelectorAll('#app {tags.replace(', ', ', #app ')}')]"
        ".map(e => e.tagName)"
    )
    assert set(found) <= {"path"}
    assert page.evaluate(
        "[...document.querySelectorAll('#app *')].every("
        "e => [...e.attributes].every(a => !a.name.startsWith('on')))"
    )
    links = page.evaluate("[...document.querySelectorAll('#app a')].map(a => a.protocol)")
    assert set(links) <= {"https:", "http:", "mailto:"}
    pictures = page.evaluate("[...document.querySelectorAll('#app img')].map(i => i.src)")
    assert all(re.match(r"data:image/(png|jpeg|gif|webp);base64,", src) for src in pictures)


def test_nothing_runs_loads_or_speaks_in_a_file(seed: ReportSeed, watched: Watched) -> None:
    page = watched.opened(Path(seed.report(attacked(seed)).path))
    look_at_everything(page)
    assert_inert(page, watched)


def test_nothing_runs_loads_or_speaks_in_the_live_view(seed: ReportSeed, watched: Watched) -> None:
    session_id = attacked(seed)
    with LiveView(seed.project, home=seed.home) as view:
        watched.own = view.address.partition("#")[0]
        watched.page.goto(view.address)
        page = watched.ready()
        expect(page.locator(".session-list li")).to_have_count(1)
        assert_inert(page, watched)
        page.goto("about:blank")
        page.goto(f"{view.address}&s={session_id}")
        watched.ready()
        look_at_everything(page)
        links = page.locator(".back")
        links.evaluate("e => e.remove()")  # the page's own link to the list
        assert_inert(page, watched)


def test_a_policy_is_in_the_file_that_allows_no_other_script_and_no_request(
    seed: ReportSeed, watched: Watched
) -> None:
    page = watched.page
    watched.opened(Path(seed.report(seed.say("Hello")).path))
    blocked = page.evaluate(
        """async () => {
          const refused = [];
          document.addEventListener("securitypolicyviolation",
            (event) => refused.push(event.effectiveDirective));
          const script = document.createElement("script");
          try { script.textContent = "window.pwned = 1"; } catch { refused.push("trusted-types"); }
          try { await fetch("https://evil.example/"); } catch { refused.push("fetch"); }
          const image = new Image();
          image.src = "https://evil.example/x.png";
          await new Promise((done) => { image.onerror = done; });
          return refused;
        }"""
    )
    assert {"trusted-types", "fetch", "connect-src", "img-src"} <= set(blocked)
    assert page.evaluate("typeof window.pwned") == "undefined"
    watched.said.clear()  # what the browser says about what it refused


def test_data_in_the_file_hold_no_markup(seed: ReportSeed) -> None:
    text = Path(seed.report(attacked(seed)).path).read_text()
    for data in re.findall(r'<script type="application/[a-z-]+" id="d-[^>]*>(.*?)</script>', text):
        assert "<" not in data
    title = re.search("<title>(.*?)</title>", text, re.DOTALL)
    assert title is not None
    assert "<" not in title[1]
    assert RUN in html.unescape(title[1])


@pytest.mark.parametrize("attack", ALL)
def test_what_is_shown_has_no_terminal_sequence_and_names_what_turns_the_text(attack: str) -> None:
    shown = visible(attack)
    assert (
        re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)
        is None
    )
    if "\u202e" in attack:
        assert "⟨U+202E⟩" in shown


def test_a_misleading_file_name_is_marked_and_an_ordinary_one_is_not() -> None:
    assert "cyrillic small letter a" in name_warnings(NAMES[0])[0]
    assert "U+200B" in name_warnings(NAMES[2])[0]
    for name in ("src/app.py", "docs/día.md", "文書/読む.txt", "проект/файл.py", "naïve café.md"):
        assert name_warnings(name) == []


def test_a_coloured_secret_is_still_one() -> None:
    key = "sk-" + "ant-api03-" + "Zb4Qw9" * 12
    coloured = f"{key[:20]}\x1b[1m{key[20:]}\x1b[0m"
    assert "Zb4Qw9" not in Cleaner({}).text(f"Use {coloured} for it")


def test_secrets_are_in_no_part_of_the_file_and_all_are_with_no_redact(seed: ReportSeed) -> None:
    key = "sk-" + "ant-api03-" + "Zb4Qw9" * 12
    own = "correct-horse-42-battery"
    with seed.open() as session:
        session.metadata(title=f"About {key}")
        session.user(f"Use {key} and {own}", source="")
        written(session, key)
        session.terminal("done", {"error": f"bad {key}"})
        session_id = session.session_id
    environ = {"MY_TOKEN": own}
    done = seed.report(session_id, environ=environ)
    assert sum((done.redacted or {}).values()) >= 5
    assert key not in everything_in(Path(done.path))
    assert own not in everything_in(Path(done.path))
    bare = seed.report(session_id, environ=environ, redact=False)
    assert bare.redacted is None
    assert everything_in(Path(bare.path)).count(key) >= 5


def written(session: rewake.Session, key: str) -> None:
    """A call with the key in its arguments, its file and its result."""
    call = ToolCall("c", "Write", {"api_key": key, "text": f"x {key}"})
    message_id = session.assistant([call])
    before = session.blobs.put(b"")
    after = session.blobs.put(f"KEY = '{key}'\n".encode())
    change = Change("/p/a.py", FileState("file", before), FileState("file", after, 90))
    result = rewake.Result((Text(f"wrote {key}"),))
    outcome = rewake.Outcome((change,))
    session.record(
        ToolLifecycle("Write", "completed", "", message_id, outcome=outcome, result=result)
    )


def everything_in(path: Path) -> str:
    """The file with its data unpacked."""
    text = path.read_text()
    packed = re.findall(r'<script type="application/octet-stream"[^>]*>(.*?)</script>', text)
    unpacked = (zlib.decompress(base64.b64decode(data)).decode() for data in packed)
    return text + "".join(json.dumps(json.loads(data), ensure_ascii=False) for data in unpacked)
