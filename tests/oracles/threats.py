"""The threats, each with what protects from it and the oracle that would see it fail."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Threat:
    """One way in which a ratio could be false."""

    threat: str
    protection: str
    oracle: str  # the name of an experiment, and options where not all of them are meant


THREATS = (
    Threat(
        "Loader workers fill their queue while the clock stands",
        "the trainer freezes its workers at the end of the timed steps, before it does anything else, and thaws them "
        "when the lead-in begins; batches finished and taken in a window are counted and must balance",
        "54 ms of loading, 45 ms of computing; sleeping loader; computing loader",
    ),
    Threat(
        "Something goes on loading that cannot be frozen: a thread of the data set, a service on another host",
        "untimed steps lead in until steps take as long as later ones, which takes up what a thread loads within a "
        "millisecond. What a service prepares in a pause of seconds is found out: where batches that are asked for one "
        "after another come twice as late as those of windows, that is how fast the loader is, and an arm that trains "
        "faster has no ratio",
        "54 ms of loading, 45 ms of computing: `variant=thread`, `variant=service`, `variant=slow_service`",
    ),
    Threat(
        "A sleep or a request ends during a pause",
        "as many untimed steps lead in as there are workers, at least",
        "54 ms of loading, 45 ms of computing; sleeping loader",
    ),
    Threat(
        "Bookkeeping between windows takes long",
        "memory is read by the launcher after the arm stands still",
        "54 ms of loading, 45 ms of computing: `variant=crowd+workers=1`",
    ),
    Threat(
        "Workers and the trainer share cores, or are kept to some",
        "arms have all cores in their turns: the processes of others are stopped; where arms share one, their loader "
        "workers are, and their threads go on",
        "60 ms of CPU for loading, 30 for the step; computing loader",
    ),
    Threat(
        "Loader workers, threads and idle processes of a neighbour in one process go on while another arm is timed",
        "an arm wakes its own workers and nothing else; one whose data set loads on in a thread has no ratio, as "
        "one with a service has none",
        "arms of one process; arms of one process that compute: `workers=2`",
    ),
    Threat(
        "An arm changes a setting of the process that it shares, and others are timed with it",
        "settings are set anew whenever another arm takes its turn, and read back: an arm that does not find those "
        "that it began with gets a process of its own",
        "arms of one process that compute: `variant=divided`, `variant=threads`",
    ),
    Threat(
        "A collector goes through the heap of another arm",
        "each arm has a process of its own, unless `--isolation shared` asks for less",
        "beside two million lists",
    ),
    Threat(
        "The trainer has other threads than its option says, or threads seem to gain where a step cannot be divided",
        "threads are settled before the process begins, and read back",
        "steps that threads divide",
    ),
    Threat(
        "Rare stalls are thrown away as noise",
        "the ratio is one of total time; a window is left out for what others did to it, never for being slow",
        "one item in 512 takes 3 s; both faults",
    ),
    Threat(
        "Workers finish side by side, and a window holds part of a group",
        "windows hold whole groups of the workers of every arm; one that does not, and waits for its batches, has no "
        "ratio",
        "fifteen steps of eight workers; eight workers of the reference",
    ),
    Threat(
        "The order of samples repeats, and each worker loads the same batches for ever, one of them the dearest",
        "an epoch is shortened until its length shares no divisor with the workers of any arm, where that leaves out "
        "at most an eighth of it",
        "dear batches at even places: `workers=2+prefetch_factor=8`",
    ),
    Threat(
        "A cache fills while it is timed: in a training it is full after an epoch",
        "three batches are read, then all again, or one where they take long, before anything else reads ahead; where "
        "the second reading of two is clearly cheaper, an arm without workers reads an epoch before its first window, "
        "and where that takes too long the row says so; a batch that is cheap from the first is not taken for one that "
        "is kept; caches of workers are not seen",
        "a data set that keeps what it read; a data set that keeps a short epoch",
    ),
    Threat(
        "The reference comes back to samples before each treatment, and a cache that is not full or has a limited size "
        "still holds them",
        "after an epoch was read its first batches are read twice, and its last ones again; an arm whose cache "
        "has dropped some of the first or not taken the last has a ratio of whole epochs alone, and a reference whose "
        "cache was not full has none",
        "a data set that keeps a part of what it read; a data set that keeps the first of what it read; treatments "
        "that keep a part of what they read; a data set whose cache still fills",
    ),
    Threat(
        "Batches in flight hide a stall, in part or in all",
        "windows are long against the queue, or whole epochs",
        "stalls that are hidden; both faults",
    ),
    Threat(
        "Samples differ in cost, and windows of two arms hold different ones",
        "windows of one number begin at the same sample in every arm; whole epochs where they are short",
        "dear and cheap samples; windows that are parts of an epoch; workers of the reference in parts of an epoch",
    ),
    Threat(
        "Steps differ in cost",
        "totals, over the same samples",
        "dear and cheap samples: `variant=steps`; stalls by the step's number: `variant=half`, `variant=none`",
    ),
    Threat(
        "Stalls come in step with windows, so that one arm meets all of them and the other none",
        "many windows, and replicates that begin elsewhere",
        "stalls in step with windows; stalls by the step's number: `variant=copy`",
    ),
    Threat(
        "A pause costs the next steps their caches, free memory or clock",
        "the lead-in lasts as long as every arm needs, measured in a turn of its own; one step of 0.1 s and more "
        "suffices an arm of the suite without workers on a CPU",
        "arms that are alike: `variant=cold`, `variant=cool`, `variant=quick`",
    ),
    Threat(
        "An arm warms up for long",
        "warm-up before the first window of every replicate, and a settling turn in the first of them, but of slow "
        "steps without workers",
        "arms that are alike: `variant=warming`",
    ),
    Threat(
        "The machine's pace changes: neighbours, heat, frequency",
        "arms take turns within seconds; the reference's pace at a treatment's moment lies between its neighbours'",
        "a machine that swings; a machine that drifts",
    ),
    Threat(
        "Windows of one process resemble each other, so that they say less than their number",
        "the unit of the interval is the replicate, with fresh processes of both arms",
        "processes that differ; a machine that swings",
    ),
    Threat(
        "Two arms differ by luck of their start",
        "replicates, and an order of starts that changes",
        "processes that differ; every `variant=copy`",
    ),
    Threat(
        "The garbage collector runs in some windows only",
        "what a training asks for is part of its time; of Python's own full passes every window bears its share, told "
        "from the objects that grew old in it, whether it met one or not",
        "garbage is collected; batches of many objects",
    ),
    Threat(
        "The time of day is set",
        "all clocks are monotonic",
        "arms that are alike: `variant=clock`",
    ),
    Threat(
        "Samples are counted wrongly: short last batches, accumulation, batches in flight",
        "samples are counted by the order that gave them out",
        "other batches",
    ),
    Threat(
        "The boundary between epochs is left out, or counted too often",
        "windows of whole epochs where an option is about boundaries",
        "epochs with a costly boundary",
    ),
    Threat(
        "The start of workers that are spawned takes seconds, and is left out, or counted where they stay",
        "windows of whole epochs, each with the start that it has in a training",
        "workers that are spawned",
    ),
    Threat(
        "A run is interrupted, and goes on when the machine has another pace",
        "a window is held against those of its own attempt; what lies before and after an interruption is no pair",
        "a run that is interrupted",
    ),
    Threat(
        "An evaluation between epochs is timed as the one that ends a training, which may do more",
        "a workload says what its evaluations between epochs leave out, and how often they scored is told by them",
        "evaluations between epochs",
    ),
    Threat(
        "A probe of an upper bound is shorter than what it probes",
        "bounds come from the windows themselves, or from whole epochs; a rate beyond its bound in each of two probes "
        "or more gives no ratio",
        "probes that are too short",
    ),
    Threat(
        "An option without use seems to gain",
        "lead-in, freezing, and a width below which no interval is believed",
        "arms that are alike: `workers=1`, `variant=helped+workers=1`; every `variant=copy`",
    ),
    Threat(
        "The ratio depends on how long windows are",
        "windows begin in the steady state",
        "windows of 0.3 s to 2.4 s",
    ),
)
