"""The ResNetSE models of clovaai/voxceleb_trainer and its kin: residual networks over mel spectrograms."""

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.checkpoint import checkpoint

from harness.core.recipe import Recipe
from harness.core.workload import Size
from workloads.speaker import EPOCHS
from workloads.speaker.front_end import MELS, FrontEnd, LoopedFrontEnd
from workloads.speaker.layers import Block, Bottleneck, Stride, initialise
from workloads.speaker.pooling import FramePooling, SpectrumPooling, Statistics

EMBEDDING = 512
TESTED_EVERY = 5  # epochs, as voxceleb_trainer has it where a configuration says nothing else
STRIDES_34L: tuple[Stride, ...] = ((1, 1), (2, 2), (2, 2), (1, 1))
STRIDES_34V2: tuple[Stride, ...] = ((1, 1), (2, 2), (2, 2), (2, 2))


class ResNetSE(nn.Module):
    """Waveform (batch, samples) at 16 kHz to embedding (batch, size): front end, stem, four stages, pooling, head."""

    def __init__(
        self,
        front_end: FrontEnd | LoopedFrontEnd,
        stem: nn.Sequential,
        stages: nn.ModuleList,
        pooling: FramePooling | SpectrumPooling,
        embedding: int,
    ) -> None:
        super().__init__()
        self.front_end: FrontEnd | LoopedFrontEnd = front_end
        self.stem = stem
        self.stages = stages
        self.pooling = pooling
        self.head = nn.Linear(pooling.leaving, embedding)
        self.checkpointing = False
        self.apply(initialise)

    def forward(self, waveform: Tensor) -> Tensor:
        """Embeddings, not yet normalised."""
        features: Tensor = self.stem(_picture(self.front_end(waveform), self.stem[0].get_parameter("weight")))
        for stage in self.stages:
            # A stage that runs again in the backward pass also moves its norms' running averages again, by the same
            # batch: nothing in training reads them, and in evaluation they follow the batches twice as fast.
            features = (
                checkpoint(stage, features, use_reentrant=False, preserve_rng_state=False)
                if self.checkpointing and self.training
                else stage(features)
            )
        embeddings: Tensor = self.head(self.pooling(features))
        return embeddings


# In all three, the channels of stem and stages are divided by `narrowing`; mels and embedding keep their number.

# With fewer channels, the 1x1 convolutions of stride 2 in channels_last write beyond their memory on CPUs with AVX-512
# (oneDNN of torch 2.11, docs/decisions/unwritten-memory.md).
FEWEST_CHANNELS = 16


def _widths(first: int, narrowing: int) -> list[int]:
    """The channels of the four stages."""
    return [max(FEWEST_CHANNELS, first * 2**number // narrowing) for number in range(4)]


def resnetse34l(
    embedding: int = EMBEDDING, *, statistics: Statistics = "sap", log_input: bool = False, narrowing: int = 1
) -> ResNetSE:
    """ResNetSE34L, the "Fast ResNet-34": thin and with a coarse stem; 1,437,078 parameters."""
    widths = _widths(16, narrowing)
    stages = _stages(Block, (3, 4, 6, 3), widths, STRIDES_34L)
    front_end = FrontEnd(log_input=log_input)
    return ResNetSE(front_end, _coarse_stem(widths[0]), stages, FramePooling(widths[-1], statistics), embedding)


def resnetse34v2(
    embedding: int = EMBEDDING, *, statistics: Statistics = "asp", log_input: bool = True, narrowing: int = 1
) -> ResNetSE:
    """ResNetSE34V2, "H / ASP": twice the width, full resolution, attention over whole spectra; 8,028,492 parameters."""
    widths = _widths(32, narrowing)
    stem = nn.Sequential(nn.Conv2d(1, widths[0], 3, padding=1), nn.ReLU(), nn.BatchNorm2d(widths[0]))
    stages = _stages(Block, (3, 4, 6, 3), widths, STRIDES_34V2)
    front_end = FrontEnd(log_input=log_input, pre_emphasis=True)
    return ResNetSE(front_end, stem, stages, SpectrumPooling(widths[-1], MELS // 8, statistics), embedding)


def resnetse152(embedding: int = EMBEDDING, *, narrowing: int = 1) -> ResNetSE:
    """ResNetSE152, bottlenecks of full width on the plan of ResNetSE34L; 76,595,232 parameters."""
    widths = _widths(64, narrowing)
    stages = _stages(Bottleneck, (3, 8, 36, 3), widths, STRIDES_34L)
    pooling = FramePooling(Bottleneck.expansion * widths[-1], "sap")
    return ResNetSE(FrontEnd(log_input=False), _coarse_stem(widths[0]), stages, pooling, embedding)


MODELS = {"resnetse34l": resnetse34l, "resnetse34v2": resnetse34v2, "resnetse152": resnetse152}


def build_model(size: Size, recipe: Recipe) -> ResNetSE:
    """The model that the recipe names."""
    model = MODELS[str(recipe.choice("architecture"))](narrowing=size.shape["narrowing"])
    model.checkpointing = recipe.checkpointing
    if recipe.choice("front_end") == "looped":
        model.front_end = LoopedFrontEnd(model.front_end)
    return model


def build_schedule(optimizer: Optimizer, steps: int) -> LambdaLR:
    """Down by 5 % after every test, a hundred times in a training."""
    return LambdaLR(optimizer, lambda step: 0.95 ** (EPOCHS // TESTED_EVERY * step // steps))


def _coarse_stem(width: int) -> nn.Sequential:
    convolution = nn.Conv2d(1, width, 7, stride=(2, 1), padding=3, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(width), nn.ReLU())


def _stages(
    kind: type[Block | Bottleneck], counts: tuple[int, ...], widths: list[int], strides: tuple[Stride, ...]
) -> nn.ModuleList:
    stages, entering = nn.ModuleList(), widths[0]
    for count, width, stride in zip(counts, widths, strides, strict=True):
        blocks = [kind(entering, width, stride)]
        entering = width * kind.expansion
        blocks += [kind(entering, width, (1, 1)) for _ in range(count - 1)]
        stages.append(nn.Sequential(*blocks))
    return stages


def _picture(mels: Tensor, weight: Tensor) -> Tensor:
    # The picture is born here, where no caller can convert it. With one channel it is contiguous in both memory formats
    # at once, so that `to` and `contiguous` leave it alone and only its strides can tell which one is meant. After
    # `model.to(memory_format=torch.channels_last)` the weights have channel stride 1: moving a new last axis to the
    # channel's place gives the picture that stride too, without a copy, and all later layers keep the format.
    return mels.unsqueeze(-1).permute(0, 3, 1, 2) if weight.stride(1) == 1 else mels.unsqueeze(1)
