"""Hypothesis, which Rewake itself doesn't need: with a clear word where it isn't installed."""

from __future__ import annotations

try:
    import hypothesis
    from hypothesis import strategies as st
except ImportError as error:
    raise ImportError(
        "The view suite draws its sessions with Hypothesis, which isn't installed here. Install it: "
        "pip install hypothesis"
    ) from error

__all__ = ["hypothesis", "st"]
