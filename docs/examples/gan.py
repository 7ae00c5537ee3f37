"""Two optimizers in one step, which no job can express: its input is measured, and its loop is watched."""
# ruff: noqa: INP001

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import speedmatrix as sm

softplus = nn.functional.softplus
loader = DataLoader(TensorDataset(torch.randn(4096, 64)), batch_size=64, shuffle=True)
maker, judge = nn.Linear(16, 64), nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
makers, judges = torch.optim.Adam(maker.parameters()), torch.optim.Adam(judge.parameters())


def step(batch: list[Tensor]) -> Tensor:
    """One update of each network; gives the judge's loss."""
    made = maker(torch.randn(len(batch[0]), 16))
    loss = (softplus(-judge(batch[0])) + softplus(judge(made.detach()))).mean()
    judges.zero_grad()
    loss.backward()
    judges.step()
    makers.zero_grad()
    softplus(-judge(made)).mean().backward()
    makers.step()
    return loss


job = sm.from_loop(step, loader)

if __name__ == "__main__":
    for batch in sm.watch(loader):
        step(batch)
