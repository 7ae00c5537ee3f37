"""Let the decoder of JPEG shrink an image that is needed smaller than it is.

A JPEG block of 8 by 8 can be decoded to 4, 2 or 1 pixels a side by leaving out its high frequencies, which is cheaper
than decoding all and resizing. Pillow calls it draft. The crop must be drawn first, from the header; where it is at
least twice as large as the view, the decoder may halve the image.

It pays as much as images are larger than views. Photographs of 500 by 375 for views of 224 are seldom twice as large,
and then it does nothing: of ours 4 % were, and 97 % of all pixels were still decoded (`decoded_pixels` in the evidence
is that share of the first items). Small views make it look better than it is: at the size `quick`, which shows 42,
9 % were decoded. Read the figure at `standard`. It throws away
what the resizing filter would have kept, so pixels differ a little.

    image = Image.open(file)
    image.draft("RGB", (width // 2, height // 2))        # before anything is decoded
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="draft_decode",
    title="Images shrunk by the decoder",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"draft_decode": True},
    proof={"draft_decode": True},
    alone_on=Timing.LOADER,
    excludes={"decoder": "only Pillow is asked to shrink", "gpu_decoding": "only Pillow is asked to shrink"},
)
