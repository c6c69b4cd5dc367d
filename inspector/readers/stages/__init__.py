"""Triton's stage files and disassembly: text with the places that its lines came from."""
