"""A plain training script, as people write it: `python plain_loop.py` trains, `speedmatrix tune` measures."""
# ruff: noqa: INP001

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

import speedmatrix as sm


class Signals(Dataset[tuple[Tensor, int]]):
    """Noisy waves of one of four frequencies, made when they are asked for."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        noise = torch.randn(1024, generator=torch.Generator().manual_seed(index))
        return torch.sin(torch.arange(1024) * (1 + index % 4) / 50) + noise, index % 4


model = nn.Sequential(nn.Linear(1024, 256), nn.ReLU(), nn.Linear(256, 4))
dataset, loss = Signals(), nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
job = sm.job(model=model, dataset=dataset, loss=loss, optimizer=optimizer, batch=64)

if __name__ == "__main__":
    for inputs, targets in sm.watch(DataLoader(dataset, batch_size=64, shuffle=True)):
        value = loss(model(inputs), targets)
        value.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(f"loss {value.item():.3f}")
