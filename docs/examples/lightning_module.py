"""A Lightning module and its data module: one line more makes them a job."""
# ruff: noqa: INP001, D101, D102, ARG002

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import speedmatrix as sm


class Classifier(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.AvgPool2d(6), nn.Flatten(), nn.Linear(256, 10))

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Digits(pl.LightningDataModule):
    def setup(self, stage: str) -> None:
        numbers = torch.Generator().manual_seed(0)
        self.data = TensorDataset(torch.randn(2048, 1, 28, 28, generator=numbers), torch.arange(2048) % 10)

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        return DataLoader(self.data, batch_size=64, shuffle=True)


job = sm.from_lightning(Classifier, Digits)
