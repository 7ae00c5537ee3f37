"""Small trainings in the style in which people write them."""

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(144, 3))

    def forward(self, pictures: Tensor) -> Tensor:
        return self.layers(pictures)


class Derived(Net):
    """Holds what was computed from a weight, as layers with a normed weight do: it cannot be copied."""

    def __init__(self) -> None:
        super().__init__()
        self.scaled = 2 * next(self.parameters())


class Pictures(Dataset[tuple[Tensor, int]]):
    """Pictures (1, 8, 8) and one of three classes."""

    def __init__(self, count: int = 96) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(index)), index % 3


class Augmented(Pictures):
    """The same with random noise."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        picture, label = super().__getitem__(index)
        return picture + 0.1 * torch.randn(1, 8, 8), label


class Ragged(Pictures):
    """Pictures of several sizes."""

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return torch.zeros(1, 8 + index % 2, 8), index % 3


class Named(Pictures):
    """Items that are dictionaries."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:  # type: ignore[override]
        picture, label = super().__getitem__(index)
        return {"picture": picture, "label": torch.tensor(label)}


def named_loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(model(batch["picture"]), batch["label"])


def sgd(parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01)
