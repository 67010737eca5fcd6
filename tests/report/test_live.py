"""The live view: the real server, a real browser, a session that is at work."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect
from tests.report.conftest import Watched
from tests.report.seed import ReportSeed

import rewake
from rewake.compose.viewing import LiveView
from rewake.model.content import ToolCall


@dataclass
class Reply:
    status: int
    body: bytes
    headers: dict[str, str]


@dataclass
class Live:
    """A server that is at work, and how to ask it."""

    address: str

    @property
    def port(self) -> int:
        return urlsplit(self.address).port or 0

    @property
    def token(self) -> str:
        return parse_qs(urlsplit(self.address).fragment)["token"][0]

    def ask(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Reply:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        with closing(connection):
            connection.request(method, path, headers=headers or {})
            answer = connection.getresponse()
            return Reply(answer.status, answer.read(), dict(answer.getheaders()))

    def with_token(self, path: str, headers: dict[str, str] | None = None) -> Reply:
        return self.ask(path, headers={"X-Rewake-Token": self.token, **(headers or {})})


@pytest.fixture
def live(seed: ReportSeed) -> Iterator[Live]:
    with LiveView(seed.project, home=seed.home) as view:
        yield Live(view.address)


def shown(watched: Watched, live: Live, session_id: str | None = None) -> Page:
    own = f"http://127.0.0.1:{live.port}/"
    watched.own = own
    watched.page.goto(live.address + (f"&s={session_id}" if session_id else ""))
    return watched.ready()


# --- in the browser --------------------------------------------------------------------------


def test_a_message_of_a_running_session_appears_and_a_call_shows_its_end(
    seed: ReportSeed, live: Live, watched: Watched
) -> None:
    with seed.open() as session:
        session.user("Count the files")
        page = shown(watched, live, session.session_id)
        expect(page.locator(".outcome")).to_have_text("Running")
        call = ToolCall("c1", "Bash", {"command": "ls | wc -l"})
        session.assistant([call], model="test:model")
        session.commit()
        with session.action(call, intent=rewake.OtherIntent()) as action:
            expect(page.locator(".row.call .dot.open")).to_have_count(1)
            action.complete("forty-two")
        session.assistant("There are **42** files.")
        session.commit()
        expect(page.locator(".row.answer").last).to_contain_text("There are 42 files.")
        expect(page.locator(".row.call .dot.done")).to_have_count(1)
        page.locator(".row.call button.fold").click()
        expect(page.locator(".row.call .output")).to_contain_text("forty-two")
        session.terminal("done")
    expect(page.locator(".outcome")).to_have_text("Done")


def test_a_torn_tail_is_waited_for(seed: ReportSeed, live: Live, watched: Watched) -> None:
    session_id = seed.say("First", "The first answer")
    path = seed.paths(session_id).transcript
    whole = path.read_bytes()
    cut = whole[: whole.rindex(b'"terminal"')]
    path.write_bytes(cut)
    page = shown(watched, live, session_id)
    expect(page.locator(".row.answer")).to_contain_text("The first answer")
    expect(page.locator(".row.end")).to_have_count(0)
    with path.open("ab") as file:
        file.write(whole[len(cut) :])
    expect(page.locator(".row.end")).to_have_count(1)


def test_the_list_has_the_sessions_finds_words_in_them_and_opens_one(
    seed: ReportSeed, live: Live, watched: Watched
) -> None:
    seed.say("Paint the fence", "It is green now.")
    seed.say("Mend the gate", "It squeaks no more.")
    page = shown(watched, live)
    expect(page.locator(".session-list li")).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("squeaks")
    expect(page.locator(".session-list .snippet mark")).to_have_text("squeaks")
    page.locator(".session-list a").click()
    expect(page.locator("h1")).to_have_text("Mend the gate")
    expect(page.locator(".row.at")).to_contain_text("squeaks no more")
    assert live.token not in page.url
    page.get_by_role("link", name="Sessions").click()
    expect(page.locator("h1")).to_have_text("Sessions")


def test_a_session_with_everything_looks_as_it_does_in_a_file(
    seed: ReportSeed, live: Live, watched: Watched
) -> None:
    page = shown(watched, live, seed.everything())
    expect(page.locator(".figures")).to_contain_text("$0.43")
    page.locator("#tab-files").click()
    page.locator("details.file summary").click()
    expect(page.locator(".panel.files .line.add").first).to_contain_text("Retries a call")
    page.locator("#tab-agents").click()
    page.get_by_role("button", name="Show its conversation").first.click()
    expect(page.locator(".row.nested.answer").first).to_contain_text("fetch.py first")
    page.locator("#tab-health").click()
    expect(page.locator(".panel.health")).to_contain_text("No damage was found")


def test_a_repaired_transcript_is_told_anew(seed: ReportSeed, live: Live, watched: Watched) -> None:
    session_id = seed.say("Before", "One answer")
    page = shown(watched, live, session_id)
    expect(page.locator(".row.answer")).to_have_count(1)
    path = seed.paths(session_id).transcript
    other = path.with_name("other")
    other.write_bytes(path.read_bytes().replace(b"One answer", b"Two answer"))
    # The checksums don't fit any more, which is told.
    other.replace(path)
    expect(page.locator(".row.damage")).to_have_count(1)
    expect(page.locator(".row.answer")).to_have_count(0)


# --- who may ask -----------------------------------------------------------------------------


def test_without_the_token_nothing_is_told(seed: ReportSeed, live: Live) -> None:
    session_id = seed.say("A secret plan")
    for path in ("/api/sessions", "/api/search?q=plan", f"/api/session/{session_id}/head"):
        for headers in ({}, {"X-Rewake-Token": "x" * 43}, {"Cookie": f"token={live.token}"}):
            answer = live.ask(path, headers=headers)
            assert (answer.status, answer.body) == (403, b"wrong token")
        assert live.with_token(path).status == 200
    assert b"secret plan" not in live.ask("/").body


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_host_or_site_is_refused_even_with_the_token(
    seed: ReportSeed, live: Live, headers: dict[str, str]
) -> None:
    for path in ("/", "/api/sessions"):
        assert live.with_token(path, headers).status == 403


def test_its_own_origin_is_not_refused(seed: ReportSeed, live: Live) -> None:
    own = {"Origin": f"http://127.0.0.1:{live.port}", "Sec-Fetch-Site": "same-origin"}
    assert live.with_token("/api/sessions", own).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_only_get_and_head_are_answered(seed: ReportSeed, live: Live, method: str) -> None:
    answer = live.ask("/api/sessions", method, {"X-Rewake-Token": live.token})
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_head_has_no_body(seed: ReportSeed, live: Live) -> None:
    answer = live.ask("/", "HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 1000


def test_every_answer_has_a_policy_and_no_permission_for_others(
    seed: ReportSeed, live: Live
) -> None:
    for path in ("/", "/api/sessions", "/nothing"):
        answer = live.with_token(path)
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        "/api/session/..%2f..%2fetc/head",
        "/api/session/%2e%2e/head",
        "/api/session//head",
        "/api/session/x/head",
        "/../../etc/passwd",
        "/api/",
        "/api/session/",
        "/%",
    ],
)
def test_what_names_no_session_is_not_found(seed: ReportSeed, live: Live, path: str) -> None:
    seed.say("Hello")
    assert live.with_token(path).status == 404


@pytest.mark.parametrize(
    "path", ["chunk/m/999", "chunk/m/x", "chunk/a-..%2f..%2fx/0", "story/a-x", "nothing"]
)
def test_what_a_session_does_not_have_is_no_defect(seed: ReportSeed, live: Live, path: str) -> None:
    session_id = seed.say("Hello")
    answer = live.with_token(f"/api/session/{session_id}/{path}")
    assert answer.status in {400, 404, 500}
    assert b"Traceback" not in answer.body


def test_what_is_no_request_is_refused_and_the_server_goes_on(seed: ReportSeed, live: Live) -> None:
    for garbage in (b"\x00\xff\r\n\r\n", b"GET " + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", live.port)) as connection:
            connection.sendall(garbage)
            assert connection.recv(100)
    assert live.with_token("/api/sessions").status == 200


def test_silent_connections_are_bounded_and_keep_nobody_out_who_was_there_first(
    seed: ReportSeed, live: Live
) -> None:
    with ExitStack() as opened:
        first = http.client.HTTPConnection("127.0.0.1", live.port, timeout=20)
        opened.enter_context(closing(first))
        first.request("GET", "/")
        first.getresponse().read()
        silent = [
            opened.enter_context(socket.create_connection(("127.0.0.1", live.port)))
            for _ in range(60)
        ]
        # Those above the limit are closed at once.
        assert any(connection.recv(1) == b"" for connection in silent[55:])
        first.request("GET", "/api/sessions", headers={"X-Rewake-Token": live.token})
        assert first.getresponse().status == 200


def test_secrets_are_taken_out_of_the_list_the_search_and_the_session(
    seed: ReportSeed, live: Live
) -> None:
    key = "sk-" + "ant-api03-" + "Zb4Qw9" * 12
    session_id = seed.say(f"Use {key} for it", f"I used {key}")
    for path in (
        "sessions",
        "search?q=used",
        f"session/{session_id}/story/m",
        f"session/{session_id}/head",
    ):
        told = live.with_token(f"/api/{path}").body.decode()
        assert "Zb4Qw9" not in told
        assert "redacted" in told


def test_half_a_secret_is_not_told_where_a_text_was_cut(seed: ReportSeed, live: Live) -> None:
    key = "sk-" + "ant-api03-" + "Zb4Qw9" * 12
    # Titles and snippets are cut before they are cleaned.
    seed.say("lorem " * 29 + key, "so " * 40 + f"needle {'word ' * 22}{key} " + "more " * 50)
    for path in ("sessions", "search?q=needle", "search?q=lorem"):
        told = live.with_token(f"/api/{path}").body.decode()
        assert "lorem" in told or "needle" in told
        assert "Zb4Q" not in told


# --- the command -----------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_its_address_and_ends_cleanly(
    seed: ReportSeed, number: signal.Signals
) -> None:
    session_id = seed.say("Hello")
    command = [sys.executable, "-m", "rewake", "view", session_id[:18]]
    environ = {**os.environ, "REWAKE_HOME": str(seed.home)}
    with subprocess.Popen(
        command,
        cwd=seed.project,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            live = Live(address)
            assert address.endswith(f"&s={session_id}")
            rows = json.loads(live.with_token("/api/sessions").body)["sessions"]
            assert [row["session_id"] for row in rows] == [session_id]
            process.send_signal(number)
            assert process.wait(60) == 0
            with pytest.raises(ConnectionRefusedError):
                live.ask("/")
        finally:
            process.kill()


def test_a_port_that_is_taken_is_told(seed: ReportSeed, live: Live) -> None:
    with pytest.raises(OSError, match="in use"):
        LiveView(seed.project, home=seed.home, port=live.port)
