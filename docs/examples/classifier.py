"""A torchvision classifier on pictures with random flips; model and optimizer are made by functions."""
# ruff: noqa: INP001

import numpy as np
import torch
from torch import nn
from torchvision.datasets import FakeData
from torchvision.models import resnet18
from torchvision.transforms import v2

import speedmatrix as sm

transform = v2.Compose(
    [v2.ToImage(), v2.RandomHorizontalFlip(), v2.RandomResizedCrop(64), v2.ToDtype(torch.float32, scale=True)]
)
pictures = FakeData(size=512, image_size=(3, 96, 96), num_classes=10, transform=transform)

job = sm.job(
    model=lambda: resnet18(num_classes=10),
    dataset=pictures,
    loss=nn.CrossEntropyLoss(label_smoothing=0.1),
    optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    batch=16,
)

if __name__ == "__main__":
    np.random.seed(0)  # noqa: NPY002  what torchvision's transforms may draw from
    matrix = job.measure(budget="5m", only=["workers=1", "channels_last", "in_memory_data"])
    print(matrix)
    print(matrix.advise())
