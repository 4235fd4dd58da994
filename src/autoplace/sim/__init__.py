"""A simulated Metal device: TensorFlow on Linux lists `GPU:0` with the kernels and the pace of a Mac's GPU.

In: names of a kernel table, a timing profile, faults. Out: a device in this process. Never: a change of results,
unless a fault was asked for, or inside `timing("replay")`.
"""

from autoplace.sim.device import Counters as Counters
from autoplace.sim.device import SimulatedDevice as SimulatedDevice
from autoplace.sim.device import counters as counters
from autoplace.sim.device import device as device
from autoplace.sim.device import faults as faults
from autoplace.sim.device import is_started as is_started
from autoplace.sim.device import set_faults as set_faults
from autoplace.sim.device import start as start
from autoplace.sim.device import timing as timing
