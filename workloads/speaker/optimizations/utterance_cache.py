"""Keep the utterances that were read last in memory, a thousand of them, in each loader worker.

The report's "custom data caching". A cache pays when things are wanted again before they are dropped. An epoch wants
each of a million utterances once, in random order: a thousand that were kept are the wrong ones, 999 times in 1000, and
each worker has a cache of its own. Here the cache holds the same share of the utterances, at least one, whatever the
size of the data.

It costs memory, a gigabyte a worker in float64 for utterances of eight seconds, and it forces whole files to be read
where a seek would do. It would pay on a set that fits into memory; but then the kernel's page cache has the files
already, and what is saved is the decoding. What is worth keeping is the noise, see `mapped_noise`.

    read = functools.lru_cache(maxsize=1000)(lambda path: soundfile.read(path)[0])
    read.cache_info()       # count the hits before believing in it
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="utterance_cache",
    title="Keep the utterances that were read last",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"utterance_cache": "lru"},
    proof={"utterance_cache": "lru"},
    alone_on=Timing.LOADER,
    excludes={"seek_read": "whoever seeks to the crop never has a whole utterance to keep"},
    pointless_where={"utterance_cache_hit_percent 0": "no utterance was still there when it was wanted again"},
)
