"""Decode JPEG with another library than Pillow.

All of them use libjpeg-turbo; they differ in what they do around it. Pillow makes an image object, converts it, and
ToTensor copies it twice more. `torchvision.io` and `simplejpeg` decode straight into an array; crop and resizing are
then torchvision's own on uint8, which know AVX2.

It pays where decoding sets the pace, with storage out of the way. Other decoders round otherwise, and torchvision's
resizing rounds otherwise than Pillow's: pixels differ by a few steps of 256, so train and validate with the same one.
simplejpeg cannot decode CMYK, of which ImageNet has some twenty files: those are left to Pillow.

    pixels = torchvision.io.decode_image(encoded, mode="RGB")         # uint8, (3, height, width)
    view = v2.functional.resized_crop(pixels, top, left, height, width, [224, 224])
"""

from harness.core.optimization import LEVEL, Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="decoder",
    title="JPEG decoded by another library",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"decoder": LEVEL},
    levels=("torchvision", "simplejpeg"),
    usual=lambda environment: "simplejpeg" if "simplejpeg" in dict(environment.packages) else "torchvision",
    proof={"decoder": LEVEL},
    alone_on=Timing.LOADER,
)
