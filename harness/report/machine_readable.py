"""The JSON report: everything a script needs, under a schema number that rises when a name changes its meaning."""

import json
import math
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any

from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.profile import Profile
from harness.core.cell import Cell

SCHEMA = 1


def to_json(matrix: Matrix) -> str:
    """The matrix as JSON; units are in the names, rates in samples a second, an endless bound is null."""
    tables = [_table(table) for table in matrix.tables]
    document = {
        "schema": SCHEMA,
        "environment": {**plain(matrix.environment), "digest": matrix.environment.digest},
        "machine": matrix.environment.machine,
        "protocol": matrix.protocol,
        "design": matrix.design,
        "seed": matrix.seed,
        "real_data": dict(matrix.data),
        "noise": matrix.noise,
        "cells_with_a_ratio": matrix.looked_at,
        "tables": tables,
        "holes": matrix.holes,
    }
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _table(table: Table) -> dict[str, Any]:
    return {
        "reference": _cell(table.cell),
        "reference_name": table.name,
        "timing": table.timing,
        "reference_profile": _profile(table.profile),
        "rows": [_row(row) for row in table.rows],
    }


def _row(row: Row) -> dict[str, Any]:
    return {
        "subject": row.subject,
        "copy": row.comparison.copy,
        "treatment": _cell(row.comparison.treatment),
        "estimate": _estimate(row.estimate) if row.estimate else None,
        "absence": row.absence,
        "quality": row.quality,
        "loader_ratio": row.loader_ratio,
        "treatment_profile": _profile(row.treatment),
        "reference_profile": _profile(row.reference),
        "notes": row.notes,
    }


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {**asdict(estimate), "disturbed": estimate.disturbed, "sensitive": estimate.sensitive}


def _profile(profile: Profile | None) -> dict[str, Any] | None:
    return {**asdict(profile), "cell": str(profile.cell)} if profile else None


def _cell(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell), "name": str(cell)}


def plain(value: Any) -> Any:
    """The same with nothing but JSON's own kinds; what is neither number nor text nor a holder of them raises later."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
