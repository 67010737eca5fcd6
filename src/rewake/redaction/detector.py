"""Finds secrets in text: keys, tokens, passwords, private keys.

The rules kept here:

- Kinds that have a form of their own are found by the detectors of detect-secrets and by a few newer
  forms; passwords by the name that they are assigned to; and the values of environment variables that
  look like keys wherever they stand.
- Nothing is verified over the network, and entropy alone makes no secret: hashes and ids are what a
  transcript is full of.
- The same text gives the same result.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol


class Found(NamedTuple):
    """A secret in a text and what it is."""

    start: int
    end: int
    kind: str


class _Plugin(Protocol):
    secret_type: str
    denylist: Iterable[re.Pattern[str]]


_OWN: Final = (
    # Forms that the library's last version doesn't know. Without a boundary in front, which would
    # cost a search by its first letters; `find` looks at what stands there.
    ("Anthropic Key", re.compile(r"sk-ant-[A-Za-z0-9_-]{16,}")),
    (
        "OpenAI Token",
        # With a digit soon: words joined by hyphens have none. Bounded, since `sk-sk-sk-…` would be
        # looked through again from each of its beginnings.
        re.compile(r"sk-(?:proj-|svcacct-|admin-)?(?=[A-Za-z_-]{0,64}[0-9])[A-Za-z0-9_-]{32,}"),
    ),
    (
        "JSON Web Token",  # three parts signed, five encrypted; the header is bounded as above
        re.compile(r"eyJ(?<![A-Za-z0-9]eyJ)[A-Za-z0-9_-]{8,1024}(?:\.[A-Za-z0-9_-]*){2,4}"),
    ),
    ("NPM Token", re.compile(r":_authToken=\s*(npm_[A-Za-z0-9]{8,}|[A-Fa-f0-9-]{36})")),
    ("OpenRouter Key", re.compile(r"sk-or-v1-[0-9a-f]{32,}")),
    ("GitHub Token", re.compile(r"github_pat_[A-Za-z0-9_]{36,}")),
    ("Google API Key", re.compile(r"AIza[A-Za-z0-9_-]{35}")),
    ("Google OAuth Secret", re.compile(r"GOCSPX-[A-Za-z0-9_-]{20,}")),
    ("Hugging Face Token", re.compile(r"hf_[A-Za-z0-9]{30,}")),
    ("Groq Key", re.compile(r"gsk_[A-Za-z0-9]{40,}")),
    ("xAI Key", re.compile(r"xai-[A-Za-z0-9]{40,}")),
    ("Slack Token", re.compile(r"xapp-[0-9]-[A-Za-z0-9-]{20,}")),
    ("DigitalOcean Token", re.compile(r"dop_v1_[0-9a-f]{64}")),
    ("Authorization Header", re.compile(r"(?i:bearer|basic)[ \t]+([A-Za-z0-9._~+/-]{16,}=*)")),
)
_OWN_PATTERNS: Final = frozenset(pattern for _, pattern in _OWN)
# As `.env` files and the output of `env` have them: capitals, no spaces around the sign.
_VARIABLE: Final = re.compile(
    r"(?m)(?:^|[\s\"'])(?:export\s+)?(?=[A-Z])[A-Z0-9_]{0,64}?"
    r"(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|PASS|CREDENTIALS?)[A-Z0-9_]{0,64}="
    # No path, and nothing that was taken out before: what comes out again must be the same.
    r"(?!(?<=PWD=)/|[\"']?\[redacted:)"
    r"([\"']?)([^\s\"'$<>(){}]{8,})\1"
)
_VARIABLE_HINT: Final = re.compile(r"[A-Z]=[\"']?[^\s\"'$<>(){}]{8}")
# What a name that says so is assigned. All parts are bounded, and no two can take the same
# characters, so that the time grows with the length of a text whatever stands in it.
_NAME: Final = (
    r"(?:passw(?:or)?d|passphrase|pwd|secret|contrase(?:ñ|n)a|(?:db|database|key)[_-]?pass|"
    r"(?:api|auth|service|account|db|database|priv|private|client|access|secret)[_-]?key|"
    r"(?:access|auth|refresh|bearer|api)[_-]?token)"
)
_SIGN: Final = r"[ \t]{0,4}(?:=>|:=|[:=])[ \t]{0,4}"
# With quotes, in programs and in JSON; `\"` where that stands in another text.
_QUOTED: Final = re.compile(
    rf"(?i){_NAME}([\w-]{{0,32}})\\{{0,4}}[\"']?\]?(?:[ \t]{{0,4}}:[ \t]{{0,4}}str)?"
    rf"(?:{_SIGN}|[ \t]{{0,4}}[!=]==?[ \t]{{0,4}})"
    r"[bfru@]{0,2}\\{0,4}(?:\"([^\"\s]{6,256})\"|'([^'\s]{6,256})')"
)
# Without, in files of settings, headers and options.
_BARE: Final = re.compile(
    rf"(?i)(?:{_NAME}\\{{0,4}}[\"']?{_SIGN}(?!=)|--token[ =]|authorization:[ \t]?(?:token|apikey)[ \t])"
    r"([^\s\"'`\\,;(){}\[\]<>$&|]{8,256})(?![(\[\w])"
)
_NO_SECRET_SUFFIX: Final = re.compile(
    r"(?i)(?:file|path|dir|url|uri|id|name|ref|type|field|hint|label|length|min|max|arn|hash)s?"
)
_CODE: Final = re.compile(
    # What programs assign: names with dots, a name like the one that it is assigned to, addresses.
    r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\.?|[A-Za-z_]+|(?i:(?:\w*_)?(?:passw(?:or)?d|secret|key|token)s?[0-9]?)|"
    r"[0-9._-]+|/.*|.*://.*"
)
_PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?!-----BEGIN ).)*?-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----",
    re.DOTALL,
)
_PRIVATE_KEY_CUT: Final = re.compile(
    # Without its end, as in an output that was cut: what follows in lines of base64.
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:\\n|[\r\n])+(?:[A-Za-z0-9+/=]{16,}|(?:Proc-Type|DEK-Info|Version|Comment): [^\r\n]*))*"
)
_PRIVATE_KEY_HINT: Final = "PRIVATE KEY"
_LEFT_OUT: Final = frozenset(
    {
        # These three guess by entropy or find what is no secret.
        "Base64 High Entropy String",
        "Hex High Entropy String",
        "Public IP (ipv4)",
        # Handled here: of a private key the library finds only the heading, and the patterns of the
        # others take a time that grows with the square of a text made for it.
        "Private Key",
        "JSON Web Token",
        "NPM tokens",
        "OpenAI Token",
        "Secret Keyword",
    }
)
# What must stand in a text for a pattern to match: looking for that takes a hundredth of the time.
_HINTS: Final[dict[str, tuple[str, ...]]] = {
    "Artifactory Credentials": ("AKC", *(f"AP{char}" for char in "0123456789ABCDEF")),
    "Authorization Header": ("earer", "asic", "EARER", "ASIC"),
    "AWS Access Key": ("AKIA", "ASIA", "A3T", "ABIA", "ACCA"),
    "Azure Storage Account access key": ("AccountKey=",),
    "Basic Auth Credentials": ("://",),
    "GitHub Token": ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    "GitLab Token": (
        "glpat-",
        "gldt-",
        "glft-",
        "glsoat-",
        "glrt-",
        "GR1348941",
        "glcbt-",
        "glimt-",
        "glptt-",
        "glagent-",
        "gloas-",
    ),
    "Mailchimp Access Key": tuple(f"-us{digit}" for digit in "0123456789"),
    "JSON Web Token": ("eyJ",),
    "NPM Token": (":_authToken",),
    "SendGrid API Key": ("SG.",),
    "Slack Token": ("xox", "xapp-", "hooks.slack.com"),
    "Square OAuth Secret": ("sq0csp",),
    "Stripe Access Key": ("k_live_",),
}
# Patterns that look for an assignment: only in lines with one of the words that they ask for.
_BY_LINE: Final = frozenset(
    {"AWS Secret Key", "Cloudant Credentials", "IBM Cloud IAM Key", "IBM COS HMAC Credentials"}
    | {"SoftLayer Credentials"}
)
_BY_LINE_HINT: Final = re.compile(r"(?i)key|token|pass|pwd|pw\b|softlayer|cloudant")
_GROUPED: Final = frozenset({"Basic Auth Credentials", "Authorization Header"})
_GROUP_CHARS_MIN: Final = 8
_DELIMITERS: Final = " \t\r\n\"'=:"  # some of the library's patterns take one along
# One of these is in whatever the two hints for lines accept.
_ASSIGNING_WORDS: Final = (
    "key",
    "pass",
    "pwd",
    "pw",
    "secret",
    "contrase",
    "token",
    "softlayer",
    "cloudant",
)
_LINE_CHARS_MAX: Final = (
    20_000  # some of the library's patterns look back and forth; a minified file is no secret
)
_PASSWORD_CHARS_MIN: Final = 6

# --- environment -----------------------------------------------------------------------------

_SECRET_NAME: Final = re.compile(r"(?i)(key|token|secret|passw|passphrase|credential|_pwd|_pat)")
_NO_SECRET_NAME: Final = re.compile(r"(?i)(_file|_path|_dir|_sock|_url|_id|_name)$")
_VALUE_CHARS_MIN: Final = 8
_PLAIN_VALUE: Final = re.compile(r"[a-z]+|[0-9.]+|[a-z]+[-_.][a-z]+|/.*|(?i:true|false)")


def secret_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of variables whose names speak of a secret, the longest first.

    Short values, paths, numbers and plain words are none: they would tear holes into any text.
    """
    values = {
        value
        for name, value in environ.items()
        if _SECRET_NAME.search(name)
        and not _NO_SECRET_NAME.search(name)
        and len(value) >= _VALUE_CHARS_MIN
        and not _PLAIN_VALUE.fullmatch(value)
    }
    return tuple(sorted(values, key=lambda value: (-len(value), value)))


# --- detector --------------------------------------------------------------------------------


class Detector:
    """Finds secrets. `known` are values that are secret wherever they stand (see `secret_values`)."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = tuple(known)
        plugins = _plugins()
        self._forms: list[tuple[str, re.Pattern[str]]] = [*_OWN]
        self._by_line: list[tuple[str, re.Pattern[str]]] = []
        for plugin in plugins:
            self._add_forms(plugin.secret_type, plugin.denylist)
        self._is_no_password = _password_filters()

    def _add_forms(self, kind: str, patterns: Iterable[re.Pattern[str]]) -> None:
        for pattern in patterns:
            name = "AWS Secret Key" if "aws" in pattern.pattern else kind
            forms = self._by_line if name in _BY_LINE else self._forms
            forms.append((name, pattern))

    def find(self, text: str) -> list[Found]:
        """The secrets in order, none overlapping another; of two the one that begins first counts."""
        found = [*self._find_known(text), *self._find_forms(text)]
        if _PRIVATE_KEY_HINT in text:
            found.extend(_private_keys(text))
        if _VARIABLE_HINT.search(text):
            found.extend(
                Found(*match.span(2), "Environment Variable") for match in _VARIABLE.finditer(text)
            )
        found.extend(self._find_in_lines(text))
        return list(_without_overlaps(found))

    def _find_known(self, text: str) -> Iterator[Found]:
        for value in self._known:
            at = text.find(value)
            while at >= 0:
                yield Found(at, at + len(value), "Environment Value")
                at = text.find(value, at + len(value))

    def _find_forms(self, text: str) -> Iterator[Found]:
        for kind, pattern in self._forms:
            if _may_hold(kind, text):
                yield from _spans(pattern, text, kind)

    def _find_in_lines(self, text: str) -> Iterator[Found]:
        """Assignments: of passwords, and of keys whose own form says too little."""
        for start, end in _lines_with_a_word(text):
            if end - start <= _LINE_CHARS_MAX:
                for found in self._find_assigned(text[start:end]):
                    yield Found(start + found.start, start + found.end, found.kind)

    def _find_assigned(self, line: str) -> Iterator[Found]:
        if _BY_LINE_HINT.search(line):
            for kind, pattern in self._by_line:
                yield from _spans(pattern, line, kind)
        for start, end in _assigned(line):
            if not self._is_no_password(line[start:end]):
                yield Found(start, end, "Password")


def _lines_with_a_word(text: str) -> list[tuple[int, int]]:
    """Where the lines stand that may assign a secret. Plain searches, since most lines don't."""
    lower = text.lower()
    if len(lower) != len(text):  # a letter whose lower case is two: look at every line
        lower = "".join(char if char.isascii() else "?" for char in text).lower()
    found: set[tuple[int, int]] = set()
    for word in _ASSIGNING_WORDS:
        at = lower.find(word)
        while at >= 0:
            end = lower.find("\n", at)
            end = len(text) if end < 0 else end
            found.add((lower.rfind("\n", 0, at) + 1, end))
            at = lower.find(word, end)
    return sorted(found)


def _assigned(line: str) -> Iterator[tuple[int, int]]:
    """Where the values stand that a line assigns to names of secrets."""
    for match in _QUOTED.finditer(line):
        suffix = match[1].replace("-", "_").rpartition("_")[2] or match[1]
        if not _NO_SECRET_SUFFIX.fullmatch(suffix):
            start, end = match.span(2) if match[2] is not None else match.span(3)
            yield start, end - (line[end - 1] == "\\")
    for match in _BARE.finditer(line):
        if not _CODE.fullmatch(match[1]):
            yield match.span(1)


def _private_keys(text: str) -> Iterator[Found]:
    whole = [match.span() for match in _PRIVATE_KEY.finditer(text)]
    begun = {start for start, _ in whole}
    cut = (match.span() for match in _PRIVATE_KEY_CUT.finditer(text) if match.start() not in begun)
    return (Found(start, end, "Private Key") for start, end in (*whole, *cut))


def _may_hold(kind: str, text: str) -> bool:
    hints = _HINTS.get(kind)
    return hints is None or any(hint in text for hint in hints)


def _plugins() -> list[_Plugin]:
    """The library's detectors; importing them takes a while, so only who redacts does."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class

    classes: Mapping[str, Callable[[], _Plugin]] = get_mapping_from_secret_type_to_class()
    return [classes[kind]() for kind in sorted(classes) if kind not in _LEFT_OUT]


def _password_filters() -> Callable[[str], bool]:
    """Whether what a name was assigned is a reference, a placeholder or a sample instead of a secret."""
    from detect_secrets.filters import heuristic

    def is_no_password(secret: str) -> bool:
        return bool(
            len(secret) < _PASSWORD_CHARS_MIN
            or " " in secret
            or heuristic.is_templated_secret(secret)
            or heuristic.is_prefixed_with_dollar_sign(secret)
            or heuristic.is_not_alphanumeric_string(secret)
            or heuristic.is_potential_uuid(secret)
            or secret.startswith("[redacted:")
        )

    return is_no_password


def _spans(pattern: re.Pattern[str], text: str, kind: str) -> Iterator[Found]:
    """Where the pattern matches: the part that is the secret, where it says which."""
    for match in pattern.finditer(text):
        start, end = match.span()
        if start and pattern in _OWN_PATTERNS and (text[start - 1].isalnum()):
            continue
        group = match.span(1) if pattern.groups else (0, 0)
        # A short group is a prefix (`ghp`), not the secret.
        if group[1] - group[0] >= _GROUP_CHARS_MIN or (kind in _GROUPED and group[1] > group[0]):
            start, end = group
        while start < end and text[start] in _DELIMITERS:
            start += 1
        while start < end and text[end - 1] in _DELIMITERS:
            end -= 1
        yield Found(start, end, kind)


def _without_overlaps(found: Iterable[Found]) -> Iterator[Found]:
    end = 0
    for item in sorted(found, key=lambda one: (one.start, -one.end, one.kind)):
        if item.start >= end and item.end > item.start:
            yield item
            end = item.end
