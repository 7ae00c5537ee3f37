"""Train on Fake-or-Real instead of ASVspoof: WAV clips of two seconds, as many real as fake. A condition, not a gain.

The figures in the real system's report were estimated for this set. A clip is shorter and needs no decoder, but each is
repeated to four seconds after its log-mel: the feed becomes cheaper and the step stays what it was.

Whatever removes work from the feed gains less here than on ASVspoof; what removes the repetition gains only here.

    files = [*Path("training/real").glob("*.wav"), *Path("training/fake").glob("*.wav")]
"""

from harness.core.optimization import Numerics, Optimization, Stage

OPTIMIZATION = Optimization(
    name="fake_or_real",
    title="Two-second WAV clips of Fake-or-Real",
    stage=Stage.INPUT,
    numerics=Numerics.DIFFERENT,
    sets={"corpus": "fake_or_real"},
    proof={"corpus": "fake_or_real"},
    sought=False,
)
