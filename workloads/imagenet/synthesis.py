"""Photographs from nothing: noise with the spectrum of natural images, and an object whose class can be learned."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import fft

Plane = npt.NDArray[np.float32]

FIELD_PX = 1024  # no image is larger
FIELDS = 6
SLOPE, CHROMA_SLOPE = 1.1, 1.5  # of the amplitude spectrum; colour is smoother than light
CONTRAST, CHROMA_CONTRAST = 46.0, 11.0  # standard deviations in steps of 8 bits; the first sets a file's size
SHAPES = 5


@dataclass(frozen=True, slots=True)
class Look:
    """What the objects of a class have in common."""

    hue: float  # radians in the plane of Cb and Cr
    shape: int
    period: float  # of its stripes, as a share of the object's radius
    angle: float  # of its stripes, radians


def look(number: int) -> Look:
    """The look of a class: golden steps keep the hues of few classes apart as well as those of many."""
    return Look(
        hue=2 * np.pi * (number * 0.618034 % 1),
        shape=number % SHAPES,
        period=0.35 + 0.3 * (number * 0.381966 % 1),
        angle=np.pi * (number * 0.755 % 1),
    )


def photograph(of: Look, width: int, height: int, rng: np.random.Generator) -> Image.Image:
    """An image in YCbCr with one object of the class somewhere in it."""
    light, blue, red = _fields()
    weights = rng.dirichlet((1, 1)) ** 0.5
    luma = CONTRAST * sum(
        np.float32(weight) * _window(light[n], width, height, rng)
        for weight, n in zip(weights, rng.choice(FIELDS, 2, replace=False), strict=True)
    )
    cb = CHROMA_CONTRAST * _window(blue, width, height, rng) - np.float32(0.1) * luma
    cr = CHROMA_CONTRAST * _window(red, width, height, rng) + np.float32(0.1) * luma
    inside, stripes = _object(of, width, height, rng)
    strength = np.float32(rng.uniform(40, 60))
    luma += inside * stripes * np.float32(22)
    cb += inside * (strength * np.float32(np.cos(of.hue)))
    cr += inside * (strength * np.float32(np.sin(of.hue)))
    planes = np.stack((luma, cb, cr), axis=2)
    planes += 128
    return Image.fromarray(planes.clip(0, 255).astype(np.uint8), mode="YCbCr")


def _object(of: Look, width: int, height: int, rng: np.random.Generator) -> tuple[Plane, Plane]:
    """Where the object is, from 0 to 1, and its stripes, from -1 to 1."""
    radius = min(width, height) * rng.uniform(0.35, 0.55)
    x = (np.arange(width, dtype=np.float32) - np.float32(width * rng.uniform(0.35, 0.65))) / np.float32(radius)
    y = (np.arange(height, dtype=np.float32)[:, None] - np.float32(height * rng.uniform(0.35, 0.65))) / np.float32(
        radius
    )
    along = x * np.float32(np.cos(of.angle)) + y * np.float32(np.sin(of.angle))
    stripes = np.sin(along * np.float32(2 * np.pi / of.period))
    return ((1 - _distance(of.shape, x, y)) * np.float32(12)).clip(0, 1), stripes


def _distance(shape: int, x: Plane, y: Plane) -> Plane:
    """How far from the middle of a shape, in its radii: disc, square, diamond, ring, cross."""
    across, down = np.abs(x), np.abs(y)
    if shape == 0:
        return np.hypot(x, y)
    if shape == 1:
        return np.maximum(across, down) * np.float32(1.2)
    if shape == 2:
        return across + down
    if shape == 3:
        return np.asarray(np.abs(np.hypot(x, y) - np.float32(0.7)) * 3 + np.float32(0.1))
    return np.asarray(np.maximum(np.minimum(across, down) * 3, np.maximum(across, down)))


def _window(field: Plane, width: int, height: int, rng: np.random.Generator) -> Plane:
    top, left = rng.integers(FIELD_PX - height + 1), rng.integers(FIELD_PX - width + 1)
    turned = field[:: rng.choice((-1, 1)), :: rng.choice((-1, 1))]
    return turned[top : top + height, left : left + width]


@cache
def _fields() -> tuple[list[Plane], Plane, Plane]:
    """Noise that every image cuts its windows from: the same in every process."""
    rng = np.random.default_rng(1000)
    return [_field(SLOPE, rng) for _ in range(FIELDS)], _field(CHROMA_SLOPE, rng), _field(CHROMA_SLOPE, rng)


def _field(slope: float, rng: np.random.Generator) -> Plane:
    """Noise (1024, 1024) whose amplitude falls with the frequency to that power, with a deviation of 1."""
    rows, columns = fft.fftfreq(FIELD_PX)[:, None], fft.rfftfreq(FIELD_PX)
    frequency = np.hypot(rows, columns)
    frequency[0, 0] = np.inf  # no mean
    spectrum = fft.rfft2(rng.standard_normal((FIELD_PX, FIELD_PX))) / frequency**slope
    field: Plane = fft.irfft2(spectrum, s=(FIELD_PX, FIELD_PX)).astype(np.float32)
    field /= field.std()
    return field
