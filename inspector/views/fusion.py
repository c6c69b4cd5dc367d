"""What the fusion pane shows, worked out in a thread, and its export to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from inspector.analysis.fusion import analyse_fusion
from inspector.analysis.fusion_rounds import fusion_history
from inspector.analysis.traffic import sizes_of
from inspector.files import unused, write_whole
from inspector.frozen import dataclass
from inspector.model.problem import InspectorError
from inspector.present.fusion import missed_table
from inspector.present.fusion_boxes import Neighbours
from inspector.present.fusion_lanes import Lanes, lanes_table
from inspector.present.fusion_why import Partners
from inspector.present.ir_diff import sides_table
from inspector.present.tables import Table, message_table
from inspector.readers.text import collection_paused

if TYPE_CHECKING:
    from inspector.model.fusion import FusionReport
    from inspector.model.links import Linkage
    from inspector.model.run import GraphArtifacts
    from inspector.readers.graph import CompiledGraph


@dataclass(frozen=True, slots=True)
class Fusion:
    """One graph's fusion: all that the lanes and the reasons need."""

    artifacts: GraphArtifacts
    report: FusionReport
    lanes: Lanes
    table: Table
    partners: Partners
    neighbours: Neighbours


def load_fusion(graph: CompiledGraph, linkage: Linkage | None = None) -> Fusion:
    """Reads whatever of the graph was not read yet."""
    artifacts = graph.artifacts()
    return fusion_of(artifacts, linkage, sizes_of(artifacts, graph.runnable(), graph.runs()))


def fusion_of(
    artifacts: GraphArtifacts, linkage: Linkage | None = None, symbols: Mapping[str, int] | None = None
) -> Fusion:
    """What the pane shows first."""
    with collection_paused():
        report = analyse_fusion(artifacts, linkage, symbols)
        lanes = Lanes.of(report, fusion_history(artifacts, report))
        partners = Partners.of(report)
        table = lanes_table(lanes) if report.nodes else message_table("Fusion", "\n".join(report.notes))
        return Fusion(artifacts, report, lanes, table, partners, Neighbours(partners))


def missed(fusion: Fusion) -> Table:
    """What did not fuse, worst first."""
    with collection_paused():
        return missed_table(fusion.report)


def sides(fusion: Fusion) -> Table:
    """The schedule before fusion beside that after it."""
    with collection_paused():
        return sides_table(fusion.artifacts, fusion.report)


def export_fusion(report: FusionReport, folder: Path) -> list[Path]:
    """Writes the fused graph as SVG and DOT; their places.

    A file that is there already stays, and the new one gets a number. InspectorError where nothing can be
    written.
    """
    from inspector.present.drawing import to_dot, to_svg

    name = "".join(sign if sign.isalnum() or sign in "._-" else "_" for sign in report.ident)
    kinds = {".svg": to_svg, ".dot": to_dot}
    stem = unused(f"{name}-fusion", lambda other: any((folder / f"{other}{kind}").exists() for kind in kinds))
    return [_write(folder / f"{stem}{kind}", draw, report) for kind, draw in kinds.items()]


def _write(path: Path, draw: Callable[[FusionReport], str], report: FusionReport) -> Path:
    try:
        write_whole(path, draw(report))
    except OSError as error:
        raise InspectorError(
            f"{path.name} cannot be written: {error.strerror}; start inspector in a folder that takes files"
        ) from error
    return path
