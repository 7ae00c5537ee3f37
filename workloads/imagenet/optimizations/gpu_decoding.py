"""Send encoded images to the GPU and decode, crop and normalize them there.

nvJPEG decodes many JPEGs in one call, on the GPU's cores and on some GPUs on a circuit of its own. The loader is left
with reading and with drawing the crops from the headers, and what it hands over is a fifth of a float32 batch: 111 KB
an image instead of 602.

It pays where few CPU cores must feed a fast GPU. Where the GPU sets the pace already it takes time from the model.
torchvision's decoder wants the encoded bytes in host memory, so that they cross the bus once for nothing; and crops
differ in size, so that each image is resized by itself. CMYK files, which nvJPEG does not take everywhere, are written
anew in RGB first. Validation stays with torchvision's decoder on the host.

    images = torchvision.io.decode_jpeg(encoded, mode="RGB", device="cuda")      # a list of uint8 tensors
"""

from harness.core.optimization import CUDA, Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="gpu_decoding",
    title="JPEG decoded on the GPU",
    stage=Stage.INPUT,
    numerics=Numerics.CLOSE,
    sets={"decoder": "nvjpeg"},
    proof={"decoder": "nvjpeg"},
    needs=(CUDA,),
    excludes={"uint8_transfer": "what is handed over is encoded"},
)
