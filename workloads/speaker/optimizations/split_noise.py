"""Cut long noise files into pieces of five seconds once, before training, instead of opening them whole every time.

The augmentation of speech needs two seconds of noise, music or talk, and of talk three to seven times over. The
recordings last up to eight minutes, and whoever reads them whole spends a hundred times longer on noise than on
speech. The trainer that this system was forked from cuts them into pieces that begin every three seconds; the fork left
that step out. Here the same two seconds are drawn with and without pieces, so that the bits of an item stay the same.

It pays where files are read whole and are much longer than a piece; together with `seek_read` little is left to gain.
It costs two thirds more space than the recordings themselves, beside them, and tens of thousands of small files,
which hurts on file systems that are slow to open or to list.

    for second in range(0, duration_s - 4, 3):
        piece = sound[second * rate : (second + 5) * rate]
        soundfile.write(folder / f"{second:05d}.wav", piece, rate, subtype="PCM_16")
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="split_noise",
    title="Cut long noise files into five-second pieces beforehand",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"noise_files": "split"},
    proof={"noise_files": "split"},
    alone_on=Timing.LOADER,
)
