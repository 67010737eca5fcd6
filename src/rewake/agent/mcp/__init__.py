"""MCP servers: tools of other programs, through the same permissions, intents and outcomes.

The rule kept here: nothing imports the client package before a server is configured; and no server, be
it slow, dead or hostile, holds the agent up or outlives it.
"""
