"""Files whose content must not get into a prompt by way of somebody's instructions.

The rule kept here: in doubt it is a secret. A file is judged by its name, by the names of the directories
that it really is in, and then (`Instructions`) by its content.
"""

from __future__ import annotations

import fnmatch
from pathlib import PurePath
from typing import Final

_DIRECTORIES: Final = frozenset(
    {".aws", ".azure", ".docker", ".gcloud", ".git", ".gnupg", ".kube", ".password-store", ".ssh"}
    | {"gcloud"}
)
_NAMES: Final = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".yarnrc*",
    ".pypirc",
    ".htpasswd",
    ".git-credentials",
    ".vault-token",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "*.asc",
    "*.gpg",
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "credentials",
    "credentials.*",
    "secrets",
    "secrets.*",
    "secret.*",
    "*.secret",
    "*.secrets",
    "shadow",
    "gshadow",
    "master.passwd",
    "*service*account*.json",
)
_HARMLESS: Final = (".env.example", ".env.sample", ".env.template", ".env.dist", "id_*.pub")


def secret_reason(path: PurePath) -> str | None:
    """Why the file at `path` counts as a secret by its name; None if it doesn't."""
    name = path.name.lower()
    for part in path.parts[:-1]:
        if part.lower() in _DIRECTORIES:
            return f"files in {part} are secrets"
    if any(fnmatch.fnmatchcase(name, pattern) for pattern in _HARMLESS):
        return None
    for pattern in _NAMES:
        if fnmatch.fnmatchcase(name, pattern):
            return f"files called {pattern} are secrets"
    return None
