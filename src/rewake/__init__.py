"""Durable sessions for coding agents."""
