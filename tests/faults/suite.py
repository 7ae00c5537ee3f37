"""All faults of the suite, in the order of the page."""

from tests.faults.from_outside import FROM_OUTSIDE
from tests.faults.injected import Injected
from tests.faults.on_disk import ON_DISK
from tests.faults.own_doing import OWN_DOING

FAULTS: tuple[Injected, ...] = (*OWN_DOING, *FROM_OUTSIDE, *ON_DISK)
