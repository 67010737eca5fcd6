"""The provider request, made from the conversation. (Types first; the derivation follows.)"""

from __future__ import annotations

import msgspec

from rewake.model.content import ContentBlock
from rewake.model.events import Role


class ViewMessage(msgspec.Struct, frozen=True):
    """One message of a request. Tool results stand in a `tool` message directly after their calls.

    Every `provider_call_id` in a view is unique within it (the recorded ones repeat).
    """

    message_id: str
    role: Role
    content: tuple[ContentBlock, ...]
    model: str = ""
    provider: dict[str, object] | None = None
