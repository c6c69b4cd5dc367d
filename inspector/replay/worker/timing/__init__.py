"""Clocks: eager and compiled in turns, and one launch again and again."""
