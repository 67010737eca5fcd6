"""A small labelled set for the detector: texts with a secret, and texts that only look like it.

The secrets are made up; they are put together here so that no scanner stumbles over this file.
"""

from __future__ import annotations

import string

_ALNUM = string.ascii_letters + string.digits


def _random(count: int, alphabet: str = _ALNUM, seed: int = 7) -> str:
    """Text that looks random, the same each time."""
    state, chars = seed, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        chars.append(alphabet[(state >> 8) % len(alphabet)])
    return "".join(chars)


_HEX = "0123456789abcdef"
_UPPER = string.ascii_uppercase + string.digits


def _secrets() -> dict[str, tuple[str, str]]:
    anthropic = "sk-" + "ant-api03-" + _random(93)
    openai = "sk-" + "proj-" + _random(60)
    github = "gh" + "p_" + _random(36)
    pat = "github" + "_pat_" + _random(82)
    aws_id = "AKI" + "A" + _random(16, _UPPER)
    aws_secret = _random(40)
    google = "AI" + "za" + _random(35)
    slack = "xo" + "xb-123456789012-123456789012-" + _random(24).lower()
    stripe = "sk_" + "live_" + _random(24)
    gitlab = "gl" + "pat-" + _random(20)
    hugging = "h" + "f_" + _random(34, string.ascii_letters)
    npm = "np" + "m_" + _random(36)
    jwt = (
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
        "eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0." + _random(43)
    )
    sendgrid = "SG" + "." + _random(22) + "." + _random(43)
    pypi = "py" + "pi-AgEIcHlwaS5vcmc" + _random(80)
    pem = (
        f"-----BEGIN {'PRIVATE'} KEY-----\n{_random(64)}\n{_random(64)}\n-----END PRIVATE KEY-----"
    )
    groq = "gs" + "k_" + _random(52)
    return {
        "anthropic": (f"Use {anthropic} for it.", anthropic),
        "openai": (f"OPENAI: {openai}\n", openai),
        "github": (f"git clone https://x:{github}@github.com/a/b", github),
        "github fine-grained": (f"token {pat}", pat),
        "aws id": (f"aws_access_key_id = {aws_id}", aws_id),
        "aws secret": (f'aws_secret_access_key = "{aws_secret}"', aws_secret),
        "google": (f"?key={google}&q=1", google),
        "slack": (f"SLACK={slack}", slack),
        "stripe": (f"stripe.api_key = '{stripe}'", stripe),
        "gitlab": (f"PRIVATE-TOKEN: {gitlab}", gitlab),
        "hugging face": (f"login(token={hugging})", hugging),
        "npm": (f"//npm.example.org/:_authToken={npm}", npm),
        "jwt": (f"Cookie: session={jwt}", jwt),
        "sendgrid": (f"key {sendgrid}", sendgrid),
        "pypi": (f"password = {pypi}", pypi),
        "private key": (f"cat id\n{pem}\n", _secret_part(pem)),
        "groq": (f"GROQ {groq}", groq),
        "basic auth": ("postgres://app:s3cr3t-Pa55@db.internal:5432/app", "s3cr3t-Pa55"),
        "bearer": (
            "curl -H 'Authorization: Bearer 4f9d8s7f6s9d8f7s9d8f7'",
            "4f9d8s7f6s9d8f7s9d8f7",
        ),
        "env file": ("DB_HOST=db\nDB_PASSWORD=Tr0ub4dor&3\n", "Tr0ub4dor&3"),
        "env output": (
            "SHELL=/bin/sh\nMY_SERVICE_TOKEN=9f8e7d6c5b4a3f2e1d\n",
            "9f8e7d6c5b4a3f2e1d",
        ),
        "exported": ("export API_KEY=zx81-9f8e7d6c5b4a", "zx81-9f8e7d6c5b4a"),
        "python password": ('password = "hunter2-is-old"', "hunter2-is-old"),
        "json password": ('{"user": "ada", "password": "l0velace!1843"}', "l0velace!1843"),
        "yaml secret": ('client_secret: "aZ09bY18cX27"', "aZ09bY18cX27"),
        "option": ("mysql -u ada --password=Xk3jd93kd0Qz db", "Xk3jd93kd0Qz"),
        "yaml password": ("db:\n  password: correcthorse9\n", "correcthorse9"),
        "telegram": (f"bot 110201543:{_random(35)}", _random(35)),
        "bare variable": ("export TOKEN=9f8e7d6c5b4a", "9f8e7d6c5b4a"),
        "credentials file": (f"aws_secret_access_key = {aws_secret}", aws_secret),
        "beside a call": ("[x](js:run(1)) password: Tr0ub4dor-3 (old)", "Tr0ub4dor-3"),
        "secret in a secret": ("admin_password: topsecret99\n", "topsecret99"),
        "json in a text": ('body: "{\\"password\\": \\"l0velace!1843\\"}"', "l0velace!1843"),
        "header": ("X-Api-Key: 4f9d8s7f6s9d8f7s", "4f9d8s7f6s9d8f7s"),
        "authorization token": ("Authorization: token 4f9d8s7f6s9d8f7s", "4f9d8s7f6s9d8f7s"),
        "token option": ("deploy --token 4f9d8s7f6s9d8f7s --now", "4f9d8s7f6s9d8f7s"),
        "plain sentence": ("The password is opensesame99, don't tell.", "opensesame99"),
    }


def _secret_part(pem: str) -> str:
    return pem.split("\n")[1]


SECRETS = _secrets()
"""By name: a text and the secret in it. The last one has no form at all and is expected to be missed."""

CLEAN = (
    "sha256: " + _random(64, _HEX),
    "commit " + _random(40, _HEX),
    "01945a62-9e00-7000-8000-abc0ffee0000",
    "def login(password: str, token: str | None = None) -> None:",
    "password = get_password(user)",
    "connect(user=user1, password=password1)",
    "password: settings.db1.password",
    "password=hash_v2(value)",
    "passwd: /etc/passwd2",
    "if password == stored1234: return",
    "password = os.environ['DB_PASSWORD']",
    "if token == expected_token: return",
    'api_key = "${API_KEY}"',
    'password = "<your password>"',
    "SECRET_KEY=$SECRET_KEY",
    "export PATH=/usr/local/bin:/usr/bin:/bin",
    "KEYBOARD_LAYOUT=en_US",
    "https://example.com/a/b?c=d#e",
    "git@github.com:ada/colours.git",
    "https://github.com/ada/colours/commit/" + _random(40, _HEX),
    "The key point is that tokens are counted per request.",
    "data:image/png;base64," + _random(200),
    "risk-assessment-of-the-whole-project-by-category-and-owner",
    "test_passwords_are_hashed PASSED [ 50%]",
    "Error: bearer token is missing",
    "max_tokens = 4096",
    "primary_key=True, foreign_key=False",
    "print(f'{secret!r} is no secret')",
    '"integrity": "sha512-' + _random(86) + '=="',
    "AccountKey is required",
    "see docs/api_keys.md for the secret sauce",
    "class SecretStore(Protocol): ...",
    "for key, value in tokens.items():",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "PWD=/home/ada/project-1\nOLDPWD=/home/ada",
    "password = hashlib.sha256(data).hexdigest()",
    "password = user2.password",
    "access_key = self._keys[0]",
    "secret: {{ secrets.DEPLOY_2 }}",
    "assert password == expected12",
    '"secretName": "my-app-credentials"',
    "secret = secrets.token_hex(16)",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + _random(43) + " ada@example.com",
)
"""Texts without a secret."""
