"""Seek to the crop and read only that, instead of reading the whole file and cutting it afterwards.

A training item is two seconds of an utterance that lasts eight, mixed with two seconds of noise files that last up to
eight minutes. Reading a file whole decodes all of it to float64, allocates eight bytes a sample and throws nearly
everything away. WAV and FLAC know where a sample lies, so the reader can go there at once.

It pays as much as files are longer than crops: little on utterances, most on the longest noise files. Most of that is
not reading but turning eight million samples into float64.
It hurts nowhere on WAV; on a compressed format without an index a seek may decode from the beginning, and on storage
that is read over a network many small reads may cost more than one long one. The bits of an item stay the same.

    with soundfile.SoundFile(path) as audio:
        audio.seek(random.randrange(audio.frames - crop + 1))
        speech = audio.read(crop)
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="seek_read",
    title="Seek to the crop and read only that",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"audio_read": "seek"},
    proof={"audio_read": "seek"},
    alone_on=Timing.LOADER,
    supersedes=("utterance_cache",),
)
