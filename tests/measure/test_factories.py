"""What a user's own code sets while it builds a model is no part of an arm's recipe."""

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from harness.core.recipe import Recipe
from harness.core.workload import Size
from harness.measure.devices import effective_backend, settle_backend
from harness.measure.phases import phases_for
from harness.measure.session import open_trainee
from tests.measure.tasks import task_of


def test_settings_that_a_model_makes_while_it_is_built_are_taken_back(tmp_path: Path) -> None:
    """Else the baseline would have them too, and the option that sets them would come to 1.00x."""
    task = task_of("leak", tmp_path, ())
    build = task.parts.model

    def setting(size: Size, recipe: Recipe) -> nn.Module:
        torch.set_num_threads(3)
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        return build(size, recipe)

    before = effective_backend()
    try:
        settle_backend(task.recipe)
        wanted = effective_backend()
        open_trainee(replace(task, parts=replace(task.parts, model=setting)), phases_for(task.device))
        assert effective_backend() == wanted
    finally:
        torch.set_num_threads(int(before["threads"] or 1))
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.benchmark = False
