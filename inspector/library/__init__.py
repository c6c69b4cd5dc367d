"""What `import inspector` offers: open runs as typed objects, capture a function's calls. docs/library.md."""

from __future__ import annotations

from .captured import capture
from .records import Records
from .run import Graph, Run, open

__all__ = ["Graph", "Records", "Run", "capture", "open"]
