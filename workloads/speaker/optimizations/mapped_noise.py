"""Map the noise recordings into memory once, and cut windows from there, instead of opening a file for each.

The samples of a PCM-16 WAV file are its bytes behind a header, so that a mapped file is an array of int16 without any
decoding. A window costs the conversion of its own samples; nothing is opened, and nothing is read that is not used.
The pages belong to the kernel's cache: all loader workers share one copy, and memory comes back when it is short.

It pays where recordings are much longer than windows and are used again and again, as noises are. It does what
`split_noise` does without a second copy on disk, and what `seek_read` does without opening. It hurts where the
recordings are larger than memory and lie on a slow disk, and it cannot be had with FLAC or MP3. A mapping counts in the
process's address space; Python's own `mmap` also keeps a file descriptor for each, torch's does not. Same bits.

    sound = torch.from_file(path, shared=False, size=22 + samples, dtype=torch.int16)[22:]   # a header of 44 bytes
    window = sound[begin : begin + crop].numpy() / 32768
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="mapped_noise",
    title="Map noise recordings into memory instead of opening them",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"noise_files": "mapped"},
    proof={"noise_files": "mapped"},
    alone_on=Timing.LOADER,
    supersedes=("split_noise",),
)
