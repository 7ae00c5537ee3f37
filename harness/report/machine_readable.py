"""The JSON report: everything a script needs, under a schema number that rises when a name changes its meaning."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from enum import Enum
from typing import Any

from harness.analyze.attribution import Gain
from harness.analyze.estimate import Estimate
from harness.analyze.matrix import Matrix, Row, Table
from harness.analyze.outlook import Anatomy, Outlook
from harness.analyze.prediction import Predicted
from harness.analyze.profile import Profile
from harness.core.cell import Cell

SCHEMA = 1


def to_json(matrix: Matrix, outlooks: Iterable[Outlook] = ()) -> str:
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
        "predicted": [_outlook(one) for one in outlooks],
    }
    return json.dumps(plain(document), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _outlook(outlook: Outlook) -> dict[str, Any]:
    """What was predicted and not measured; `refused` says why there is nothing."""
    said, check = outlook.forecast, outlook.check
    return {
        "reference": _cell(outlook.cell),
        "refused": said if isinstance(said, str) else None,
        "foretold": None if isinstance(said, str) else said.foretold,
        "unmeasured_stacks": None if isinstance(said, str) else said.unmeasured,
        "stacks": [] if isinstance(said, str) else [predicted_stack(one) for one in said.fastest],
        "ceilings": {} if isinstance(said, str) else {one.name: dict(one.stages) for one in said.ceilings},
        "anatomy": anatomy(outlook.anatomy) if outlook.anatomy else None,
        "cross_check": {
            "cells_fitted": check.fitted,
            "median_error": check.median_error,
            "worst_error": check.worst_error,
            "inside_90": check.inside,
            "median_error_of_products": check.multiplied_error,
            "cells": [
                {**predicted_stack(one.predicted), "measured": one.ratio, "product": one.multiplied}
                for one in check.cells
            ],
        }
        if check
        else None,
    }


def predicted_stack(one: Predicted) -> dict[str, Any]:
    """A predicted ratio with its 90 % interval."""
    switches = [str(switch) for switch in one.arrangement.switches]
    return {"switches": switches, "predicted_ratio": one.ratio, "low_90": one.low, "high_90": one.high}


def anatomy(found: Anatomy) -> dict[str, Any]:
    """A stack in parts; every ratio with its 95 % interval."""
    parts = [
        {"switch": str(one.switch), "alone": _gain(one.alone), "share": _gain(one.share), "last": _gain(one.last)}
        for one in found.parts
    ]
    return {"subject": found.subject, "total": _gain(found.total), "parts": parts}


def _gain(found: Gain | None) -> dict[str, float] | None:
    return None if found is None else {"ratio": found.ratio, "low_95": found.low, "high_95": found.high}


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
        "energy": _estimate(row.energy) if row.energy else None,
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
