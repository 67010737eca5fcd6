"""Arguments as a model wrote them → typed values, or a message that the model can act on."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from rewake.agent.ports import ToolInputError
from rewake.model.content import JsonObject

_Arguments = TypeVar("_Arguments", bound=msgspec.Struct)


def parse(tool_name: str, arguments_type: type[_Arguments], arguments: JsonObject) -> _Arguments:
    """The arguments, with numbers and booleans in quotes accepted. Raises ToolInputError."""
    try:
        return msgspec.convert(arguments, arguments_type, strict=False)
    except msgspec.ValidationError as error:
        fields = msgspec.structs.fields(arguments_type)
        known = ", ".join(
            f"{field.encode_name}{'' if field.required else ' (optional)'}" for field in fields
        )
        message = str(error).replace("Object ", "The arguments ", 1)
        raise ToolInputError(
            f"{tool_name} can't be called so: {message}. Its arguments are: {known}."
        ) from error
