"""torch.compile: the model is traced and compiled into fused kernels.

Removes Python and launch overhead and the memory traffic between small operations. The first steps pay for it, from
half a minute to several; nothing is gained while the step waits for data. The first batch of another shape is compiled
again, with the sizes that vary left open, later ones mostly are not. `reduce-overhead` adds CUDA graphs, which are
recorded for each shape; on a CPU it is `default`. `max-autotune` searches kernels for minutes and has graphs too.
`fullgraph` is an error where code cannot be traced, instead of a model that silently runs in pieces. `regional`
compiles the repeated blocks of a model, each kind once: the start is shorter, and what lies between stays as it is.

Gradients that last from step to step must not lie in the memory of such a CUDA graph. With `reduce-overhead` and
`max-autotune` they are therefore filled with zeros before the first backward pass, unless `set_to_none` drops them
after every step; `set_to_none` and gradient accumulation together are refused.

An evaluation calls the model as it was before compiling; only the blocks of `regional` stay compiled in it.

    model = torch.compile(model, mode="default")        # or fullgraph=True
    for block in model.layers:                          # regional
        block.compile()
"""

from harness.core.optimization import COMPILER, GRAPHS, LEVEL, NEW_SHAPES, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="compile",
    title="Compiled model",
    stage=Stage.DEVICE,
    numerics=Numerics.CLOSE,
    sets={"compile": LEVEL},
    proof={"compiled": True},
    alone_on=Timing.COMPUTE,
    levels=("default", "reduce-overhead", "max-autotune", "fullgraph", "regional"),
    needs=(COMPILER,),
    level_needs={"reduce-overhead": GRAPHS, "max-autotune": NEW_SHAPES},
    start_s=90.0,
)
