"""Decoders: encoded bytes into an image, by Pillow as found or by others that skip it."""

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from PIL import Image
from torch import Tensor
from torchvision.io import ImageReadMode, decode_image
from torchvision.transforms.v2.functional import pil_to_tensor

# Start of frame: C0 to CF, but for the tables of Huffman (C4) and arithmetic coding (CC) and a reserved one (C8).
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}

Pixels = Image.Image | Tensor  # RGB: an image, or (3, height, width) in uint8


@dataclass(frozen=True, slots=True)
class Decoded:
    """One decoding: by which library, and the share of the image's pixels that it made."""

    by: str
    share: float


def by_pillow(encoded: bytes) -> tuple[Pixels, str]:
    """As torchvision's ImageFolder opens an image."""
    return Image.open(io.BytesIO(encoded)).convert("RGB"), "pillow"


def by_torchvision(encoded: bytes) -> tuple[Pixels, str]:
    """libjpeg-turbo straight into a tensor; PNG files, which ImageNet has under another name, as well."""
    buffer = torch.frombuffer(bytearray(encoded), dtype=torch.uint8)
    return decode_image(buffer, mode=ImageReadMode.RGB), "torchvision"


def by_simplejpeg(encoded: bytes) -> tuple[Pixels, str]:
    """libjpeg-turbo through simplejpeg; the few files that are not RGB or grey JPEG by Pillow."""
    import simplejpeg

    if components(encoded) not in {1, 3}:
        image, decoder = by_pillow(encoded)
        return pil_to_tensor(image), decoder
    return torch.from_numpy(simplejpeg.decode_jpeg(encoded)).permute(2, 0, 1), "simplejpeg"


def components(encoded: bytes) -> int:
    """Colours of a JPEG, by the first frame header (ITU T.81, B.2.2); 0 for what is no JPEG."""
    at = 2 if encoded.startswith(b"\xff\xd8") else len(encoded)
    while at + 9 < len(encoded):
        marker, length = encoded[at + 1], int.from_bytes(encoded[at + 2 : at + 4], "big")
        if marker in FRAMES:
            return encoded[at + 9]
        at += 2 + length
    return 0


DECODERS: Mapping[str, Callable[[bytes], tuple[Pixels, str]]] = {
    "pillow": by_pillow,
    "torchvision": by_torchvision,
    "simplejpeg": by_simplejpeg,
}


def sides(pixels: Pixels) -> tuple[int, int]:
    """Width and height."""
    if isinstance(pixels, Tensor):
        return pixels.shape[2], pixels.shape[1]
    return pixels.size
