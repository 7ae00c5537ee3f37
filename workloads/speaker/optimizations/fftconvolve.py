"""Call `scipy.signal.fftconvolve` instead of `convolve` for reverberation.

A usual piece of advice: convolve long signals by FFT. But `convolve` weighs both methods by the lengths and has chosen
the FFT here by itself, so that the same code runs and gives the same bits. Only the choice is saved, which is some
multiplications.

It pays where `convolve` was told `method="direct"`, or with `numpy.convolve`, which knows no other. It would hurt
with a response of a few dozen samples, where the direct sum is faster; then the last bits differ, too.

    signal.choose_conv_method(speech, response)     # 'fft': then there is nothing to gain
    reverberated = signal.fftconvolve(speech, response)[: len(speech)]
"""

from harness.core.optimization import Numerics, Optimization, Stage, Timing

OPTIMIZATION = Optimization(
    name="fftconvolve",
    title="Convolve with fftconvolve instead of convolve",
    stage=Stage.INPUT,
    numerics=Numerics.EXACT,
    sets={"convolution": "fftconvolve"},
    proof={"convolution": "fftconvolve"},
    alone_on=Timing.LOADER,
    pointless_where={"chosen_convolution fft": "scipy's convolve chooses the FFT for these lengths by itself"},
)
