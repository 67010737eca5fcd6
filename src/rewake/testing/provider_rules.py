"""What the OpenAI and Anthropic protocols refuse, as pure functions over a parsed request.

The rule kept here: a request in which `violations_openai` or `violations_anthropic` finds nothing
is accepted by the real service as far as its *shape* goes; each sentence names the place. They are
strict where services differ: what any common server of the protocol refuses counts (a `system`
message in the middle, a call id used twice in one conversation, arguments that are no JSON object).
"""

from rewake.testing._rules_anthropic import violations_anthropic
from rewake.testing._rules_openai import violations_openai

__all__ = ["violations_anthropic", "violations_openai"]
