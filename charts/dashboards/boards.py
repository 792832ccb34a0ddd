"""All dashboards, and the files they are written to."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from charts.dashboards import cluster_board, groups_board, operator_board, topics_board
from charts.dashboards.board import Board, to_json

BOARDS: Final[tuple[Board, ...]] = (
    cluster_board.BOARD,
    topics_board.BOARD,
    groups_board.BOARD,
    operator_board.BOARD,
)
FOLDER: Final = "chiplog-monitoring/dashboards"


def files() -> Mapping[Path, str]:
    """Every dashboard's JSON, by its path below charts/."""
    return {
        Path(FOLDER) / f"{board.name}.json": json.dumps(to_json(board), indent=1) + "\n"
        for board in BOARDS
    }
