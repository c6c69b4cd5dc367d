"""Why compiled code is slow: rules over evidence, a ledger that adds up, and advice that can be tried."""

from __future__ import annotations

from .engine import explain, explained

__all__ = ["explain", "explained"]
