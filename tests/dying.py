"""A reader of sources that one of them kills; small, as processes import it anew."""

from __future__ import annotations

import os

from inspector.index.reading import Rows
from inspector.index.sources import Found


def dies_of_one(source: Found) -> Rows:
    if source.path.endswith("killer"):
        os._exit(1)
    named = {"source": source.path, "error": "no run"}
    return {"sources": [{**named, "stamp": source.stamp, "runs": 0}], "runs": []}
