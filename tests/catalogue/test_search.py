from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.catalogue.conftest import Make, Search, go_on

import rewake
from rewake.catalogue.passages import searchable
from rewake.catalogue.query import match_expression, snippet_of, terms_of
from rewake.catalogue.search import SearchHit, search_sessions
from rewake.compose.finding import search as search_in_library
from rewake.errors import UsageError
from rewake.log.disk import Disk
from rewake.model.content import Text, ToolCall
from rewake.model.events import Change, FileState, Message, Outcome, ToolLifecycle


def marked(hit: SearchHit) -> list[str]:
    return [hit.snippet[start:end] for start, end in hit.marks]


def test_prompts_answers_and_titles_are_found_with_where_they_stand(
    make: Make, search: Search, project: Path
) -> None:
    paths = make("s1", ("Mend the aardvark", "The badger is mended"), title="Cormorant")
    for word, kind in (("aardvark", "prompt"), ("badger", "answer"), ("cormorant", "title")):
        (hit,) = search(word)
        assert (hit.session_id, hit.kind, hit.title) == ("s1", kind, "Cormorant")
        assert [text.lower() for text in marked(hit)] == [word]
        assert hit.project == str(project)
        assert hit.path == str(paths.transcript)
        assert abs(datetime.fromisoformat(hit.timestamp) - datetime.now(UTC)).total_seconds() < 600


def test_a_hit_names_the_message_to_resume_at(make: Make, search: Search, home: Path) -> None:
    make("s1", ("Mend the aardvark", "The badger is mended"))
    (hit,) = search("badger")
    with rewake.open_session(home.parent / "project", home=home, resume="s1") as session:
        assert hit.message_id in {entry.message_id for entry in session.messages}
        assert hit.message_id == session.messages[1].message_id


def calls(home: Path, project: Path, session_id: str) -> None:
    """A session with two calls: one in a message, one that no message asked for."""
    with rewake.open_session(
        project, home=home, session_id=session_id, durability="process"
    ) as session:
        session.user("Go")
        edit = ToolCall("c1", "Edit", {"path": "src/deep/app.py", "edits": [{"old": "zebra"}]})
        message = Message("assistant", (Text("Now"), edit))
        message_id = session.record(message).event_id
        call = session.record(ToolLifecycle("Edit", "requested", message_id=message_id))
        change = Change("/project/src/written.py", FileState(), FileState())
        outcome = Outcome(changes=(change,))
        ended = ToolLifecycle("Edit", "completed", call.event_id, message_id, outcome=outcome)
        session.record(ended)
        alone = ToolLifecycle("Bash", "requested", arguments={"command": "grep -rn walrus ."})
        session.record(alone)


def test_calls_are_found_by_their_arguments_and_by_the_files_they_changed(
    home: Path, project: Path, search: Search
) -> None:
    calls(home, project, "s1")
    (hit,) = search("zebra")
    assert (hit.kind, hit.tool, marked(hit)) == ("tool", "Edit", ["zebra"])
    (hit,) = search("walrus")
    assert (hit.kind, hit.tool, hit.message_id) == ("tool", "Bash", None)
    (hit,) = search("written.py")
    assert (hit.kind, hit.tool, hit.message_id is None) == ("file", "Edit", False)
    assert marked(hit) == ["written.py"]


def test_what_a_tool_gave_back_is_not_searched(home: Path, project: Path, search: Search) -> None:
    with rewake.open_session(project, home=home, durability="process") as session:
        session.user("Go")
        session.assistant([ToolCall("c1", "Read", {"path": "a"})])
        session.append(Message("tool", (rewake.ToolResult("c1", (Text("iguana"),)),)))
        session.user("A note", source="rewake")
    assert search("iguana") == []
    assert search("note") == []


def test_filters(home: Path, project: Path, make: Make, search: Search, tmp_path: Path) -> None:
    calls(home, project, "s1")
    make("s2", ("Go to the zebra", "Now"), tags=["animals"])
    make("s3", ("Go",), root=tmp_path / "other")

    def found(query: str, **filters: object) -> set[str]:
        return {hit.session_id for hit in search(query, **filters)}

    assert found("zebra") == {"s1", "s2"}
    assert found("zebra", tag="animals") == {"s2"}
    assert found("zebra", tool="edit") == {"s1"}
    assert found("go", file="app.py") == found("go", file="src/deep/app.py") == {"s1"}
    assert found("go", file="pp.py") == set()
    assert found("go", root=project) == {"s1", "s2"}
    assert found("", tag="animals") == {"s2"}
    assert found("", file="written.py") == {"s1"}
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    assert found("go", since_ms=now_ms - 600_000) == {"s1", "s2", "s3"}
    assert found("go", since_ms=now_ms + 600_000) == set()
    assert found("go", until_ms=now_ms - 600_000) == set()


def test_the_best_hit_comes_first_and_no_session_crowds_the_others_out(
    make: Make, search: Search
) -> None:
    make("many", tuple(f"The needle number {n} and a lot of other words" for n in range(20)))
    make("titled", ("Something else",), title="Needle")
    hits = search("needle")
    assert (hits[0].session_id, hits[0].kind) == ("titled", "title")
    assert [hit.session_id for hit in hits].count("many") == 3
    assert [hit.rank for hit in hits] == sorted(hit.rank for hit in hits)
    assert len(search("needle", limit=2)) == 2


def test_words_phrases_and_beginnings(make: Make, search: Search) -> None:
    make("s1", ("Parse the config file in parser_utils.py first",))
    for query in (
        "config parse",
        '"the config file"',
        "pars*",
        '"config fi"*',
        "parser_utils",
        "parser_utils.py",
        "CONFIG",
        "utils",
    ):
        assert [hit.session_id for hit in search(query)] == ["s1"], query
    for query in ('"file config"', "par", "config missing", '"config fi"'):
        assert search(query) == [], query


@pytest.mark.parametrize(
    ("said", "query"),
    [
        ("Das Maß der größten Straße", "GRÖSSTEN"),
        ("Das Maß der größten Straße", "strasse"),
        ("un café cre\u0300me", "crème"),
        ("un café", "cafe\u0301"),
        ("un café", "cafe"),
        ("日本語のテストを書く", "テスト"),
        ("日本語のテストを書く", "本語"),
        ("ทดสอบภาษาไทย", "ภาษา"),
        ("हिन्दी में लिखो", "हिन्दी"),
        ("Проверь ЁЛКУ", "елку"),
        ("اكتب اختبارا", "اختبارا"),
        ("İstanbul", "istanbul"),
    ],
)
def test_any_script_is_found_in_any_case_and_composition(
    make: Make, search: Search, said: str, query: str
) -> None:
    make("s1", (said,))
    (hit,) = search(query)
    assert hit.marks, hit


def test_any_text_is_a_query(make: Make, search: Search) -> None:
    make("s1", ("Hello NEAR world AND all",))
    for query in (
        "NEAR(hello world)",
        "hello AND world OR",
        "prompt:hello -world",
        'hello "unclosed',
        "hello ^ * ( ) { } + ' ; --",
        "hello\0world",
        "he* llo*",
        "\ud800hello\udfff",
        "NOT",
        "hello " * 1_000,
    ):
        search(query)
    assert search("near AND all")


@given(st.text(max_size=40))
def test_an_expression_is_always_understood(query: str) -> None:
    import sqlite3
    from contextlib import closing

    terms = terms_of(query)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE words USING fts5(prompt, content='')")
        connection.execute("INSERT INTO words (rowid, prompt) VALUES (1, ?)", (searchable(query),))
        if terms:
            found = connection.execute(
                "SELECT rowid FROM words WHERE words MATCH ?", (match_expression(terms),)
            )
            found.fetchall()


@given(st.text(max_size=400), st.text(max_size=20))
def test_a_snippet_is_one_clean_line_with_its_marks_inside(text: str, query: str) -> None:
    snippet = snippet_of(text, terms_of(query))
    assert all(char.isprintable() or char == "\u200d" for char in snippet.text)
    at = 0
    for start, end in snippet.marks:
        assert at <= start < end <= len(snippet.text)
        at = end


def test_what_is_found_has_no_control_sequences(make: Make, search: Search) -> None:
    make("s1", ("A \x1b[31mred\x1b[0m \x1b]0;title\x07 otter\u202e\x00\r\nhere",))
    (hit,) = search("otter")
    assert hit.snippet == "A red otter here"


def test_a_snippet_cuts_no_character_in_two(make: Make, search: Search) -> None:
    family = "👩‍👩‍👧‍👦"
    make("s1", (family * 80 + " otter " + family * 80,))
    (hit,) = search("otter")
    inner = hit.snippet.removeprefix("… ").removesuffix(" …").replace("otter", "").strip()
    assert marked(hit) == ["otter"]
    assert set(inner.replace(" ", "").split(family)) == {""}


def test_no_word_and_no_filter_is_told(make: Make, search: Search) -> None:
    make("s1")
    for query in ("", "  ", "!!! -- ***", '""'):
        with pytest.raises(UsageError, match="no word"):
            search(query)


def test_new_messages_are_found_at_once(
    make: Make, search: Search, home: Path, project: Path
) -> None:
    make("s1", ("First otter",))
    assert len(search("otter")) == 1
    go_on(home, project, "s1", ("Second otter",))
    assert len(search("otter")) == 2


def test_a_session_that_is_gone_is_not_found(make: Make, search: Search) -> None:
    paths = make("s1", ("An otter",))
    make("s2", ("An otter",))
    assert len(search("otter")) == 2
    shutil.rmtree(paths.directory)
    assert [hit.session_id for hit in search("otter")] == ["s2"]


def test_words_of_a_rewound_branch_are_found_too(home: Path, project: Path, search: Search) -> None:
    with rewake.open_session(project, home=home, session_id="s1", durability="process") as session:
        first = session.user("Begin")
        session.user("Left otter")
        session.rewind(first)
        session.user("Other way")
    assert [hit.session_id for hit in search("otter")] == ["s1"]


def test_a_prompt_too_long_for_its_line_is_found(make: Make, search: Search) -> None:
    make("s1", ("otter " + "filler words " * 10_000,))
    (hit,) = search("otter")
    assert marked(hit) == ["otter"]


def test_a_transcript_that_can_t_be_read_is_told_and_hides_no_other(
    make: Make, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make("s1", ("An otter",))
    broken = make("s2", ("An otter",)).transcript
    from rewake.errors import StorageError
    from rewake.log.scan import Transcript

    real = Transcript.__init__

    def refuse(self: Transcript, path: Path) -> None:
        if path == broken:
            raise StorageError("Could not open it.", path=str(path), remedy="Look at the disk.")
        real(self, path)

    monkeypatch.setattr(Transcript, "__init__", refuse)
    found = search_sessions(home, Disk(), "otter")
    assert [hit.session_id for hit in found.hits] == ["s1"]
    assert len(found.problems) == 1
    assert str(broken) in found.problems[0]


def test_searching_an_empty_home_makes_nothing(home: Path, search: Search) -> None:
    assert search("otter") == []
    assert not home.exists()


def test_the_library_searches_a_project_or_all(
    make: Make, home: Path, project: Path, tmp_path: Path
) -> None:
    make("s1", ("An otter",), tags=["x"])
    make("s2", ("An otter",), root=tmp_path / "other")
    here = search_in_library("otter", project, home=home)
    assert [hit.session_id for hit in here.hits] == ["s1"]
    everywhere = search_in_library("otter", home=home, everywhere=True)
    assert {hit.session_id for hit in everywhere.hits} == {"s1", "s2"}
    naive = datetime(2020, 1, 1)  # noqa: DTZ001  # a time without a zone is what is tested
    assert search_in_library("otter", project, home=home, until=naive).hits == ()
    assert search_in_library("otter", project, home=home, since=naive, tag="x").hits
