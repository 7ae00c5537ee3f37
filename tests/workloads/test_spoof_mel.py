"""The log-mel of the anti-spoofing workload, against torchaudio, and its ports against each other."""

from typing import Any

import numpy as np
import pytest
import torch
from torchaudio import functional
from torchaudio.transforms import MelSpectrogram

from workloads.spoof import mel, torch_mel

torch.set_num_threads(1)


def sound(samples: int = 30_000, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    swell = np.sin(np.linspace(0, 40, samples)) ** 6 + 1e-4
    tones = np.sin(2 * np.pi * 700 / 16_000 * np.arange(samples))
    return 0.3 * swell * (tones + 0.1 * rng.standard_normal(samples))


def by_torchaudio(waveform: Any, norm: str | None, scale: str) -> Any:
    """Another implementation of the same definition, in float64."""
    transform = MelSpectrogram(
        16_000, n_fft=512, hop_length=160, n_mels=128, pad_mode="constant", norm=norm, mel_scale=scale
    ).double()
    power = transform(torch.from_numpy(waveform))
    reference = max(float(power.max()), 1e-10)
    return functional.amplitude_to_DB(power, 10.0, 1e-10, float(np.log10(reference)), top_db=80.0).numpy()


def test_filters_are_slaneys_in_scale_and_norm() -> None:
    expected = functional.melscale_fbanks(257, 0.0, 8_000.0, 128, 16_000, norm="slaney", mel_scale="slaney")
    np.testing.assert_allclose(mel.filters(), expected.T.numpy(), atol=1e-6)
    assert mel.filters().max() > 1e4 * 1e-6  # the tolerance is far below the filters


@pytest.mark.parametrize(("samples", "frames"), [(64_600, 404), (32_000, 201), (16_120, 101), (159, 1)])
def test_frames_are_those_of_a_centred_spectrogram(samples: int, frames: int) -> None:
    assert mel.frames_of(samples) == mel.log_mel(sound(samples)).shape[1] == frames


def test_log_mel_is_that_of_torchaudio_with_the_right_settings_and_with_no_others() -> None:
    ours = mel.log_mel(sound())
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, by_torchaudio(sound(), "slaney", "slaney"), atol=2e-3)  # its filters: float32
    assert np.abs(ours - by_torchaudio(sound(), None, "slaney")).max() > 1
    with pytest.warns(UserWarning, match="all zero values"):  # HTK's scale is too fine for 257 bins
        by_default = by_torchaudio(sound(), None, "htk")
    assert np.abs(ours - by_default).max() > 1


def test_levels_lie_between_minus_80_and_0_db_and_do_not_know_the_loudness() -> None:
    levels = mel.log_mel(sound())
    assert (levels.min(), levels.max()) == (-80.0, 0.0)
    np.testing.assert_allclose(mel.log_mel(0.5 * sound()), levels, atol=1e-3)


def test_silence_has_a_level() -> None:
    assert (mel.log_mel(np.zeros(1_000)) == 0).all()
    assert (torch_mel.log_mel(np.zeros(1_000, np.float32)) == 0).all()


def test_blocks_of_frames_make_one_spectrum() -> None:
    waveform = sound(mel.BLOCK_FRAMES * 160 * 2 + 500)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(waveform, 256), 512)[::160]
    expected = np.fft.rfft(windows * np.hanning(513)[:-1])
    np.testing.assert_allclose(mel.spectrum(waveform), expected, atol=1e-12)


def test_float32_stays_float32_and_near() -> None:
    levels = mel.log_mel(sound().astype(np.float32))
    assert levels.dtype == np.float32
    np.testing.assert_allclose(levels, mel.log_mel(sound()), atol=0.05)


def test_torch_gives_the_same_levels_for_a_clip() -> None:
    levels = torch_mel.log_mel(sound().astype(np.float32))
    assert (levels.dtype, levels.shape) == (torch.float32, (128, 188))
    np.testing.assert_allclose(levels.numpy(), mel.log_mel(sound()), atol=0.05)


def test_the_device_gives_each_clip_of_a_batch_its_own_reference_level() -> None:
    clips = [
        np.rint(32_767 * gain * sound(samples)).astype(np.int16) for gain, samples in ((1.0, 30_000), (0.05, 9_000))
    ]
    padded = torch.zeros(2, 32_000, dtype=torch.int16)
    for row, clip in zip(padded, clips, strict=True):
        row[: len(clip)] = torch.from_numpy(clip)
    stage = torch_mel.DeviceMel(101, torch.device("cpu"))
    batch = (padded, torch.tensor([30_000, 9_000]), torch.tensor([40, 0]), torch.tensor([1, 0]))
    features, labels = stage(batch)
    long, short = (mel.log_mel(clip / 32_768) for clip in clips)
    np.testing.assert_allclose(features[0], long[:, 40:141], atol=0.05)
    np.testing.assert_allclose(features[1], np.tile(short, 2)[:, :101], atol=0.05)
    assert labels.tolist() == [1, 0]


def test_what_lies_in_the_padding_is_no_part_of_a_clip() -> None:
    # The last window of 9,000 samples reaches 256 further; a frame beyond it would see the end of the clip again.
    loud_end = np.zeros(9_000, np.int16)
    loud_end[-40:] = 20_000
    padded = torch.zeros(1, 16_000, dtype=torch.int16)
    padded[0, :9_000] = torch.from_numpy(loud_end)
    stage = torch_mel.DeviceMel(57, torch.device("cpu"))
    features, _ = stage((padded, torch.tensor([9_000]), torch.tensor([0]), torch.tensor([0])))
    np.testing.assert_allclose(features[0], mel.log_mel(loud_end / 32_768), atol=0.05)
    frames_computed = stage.spectrogram.power(padded.float()).shape[-1]
    assert frames_computed > features.shape[-1]
