"""Long pastes stand in the prompt as a mark and are sent whole.

The rule kept here: what was pasted is never changed or cut, and a mark that the user deletes takes its
text with it.
"""

from __future__ import annotations

import re
from typing import Final

_LINES_MIN: Final = 6
_CHARS_MIN: Final = 2000
_MARK: Final = re.compile(r"\[pasted [^\]\n]*\]")


class Pastes:
    """The long pastes of the prompts that are being written."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def take(self, text: str) -> str:
        """What to put into the prompt for a paste: the text itself where it is short."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.count("\n") + 1
        if lines < _LINES_MIN and len(text) < _CHARS_MIN:
            return text
        amount = f"{lines} lines" if lines > 1 else f"{len(text)} characters"
        mark, number = f"[pasted {amount}]", 1
        while self._texts.get(mark, text) != text:
            number += 1
            mark = f"[pasted {amount} #{number}]"
        self._texts[mark] = text
        return mark

    def expand(self, prompt: str) -> str:
        """The prompt as it is sent."""
        return _MARK.sub(lambda found: self._texts.get(found[0], found[0]), prompt)

    def typed(self, prompt: str) -> str:
        """The prompt without what was pasted: what a person wrote themselves."""
        return _MARK.sub(lambda found: "" if found[0] in self._texts else found[0], prompt)
