"""A simulated Metal device: `GPU:0` on Linux, with the kernels and the pace of a Mac's GPU.

In: names of a kernel table, a timing profile, faults. Out: a device in this process, and what it
did. Never: a change of results, unless a fault was asked for, or inside `timing("replay")`.
"""

from autoplace.sim.control import Counters as Counters
from autoplace.sim.control import counters as counters
from autoplace.sim.control import faults as faults
from autoplace.sim.control import set_faults as set_faults
from autoplace.sim.control import timing as timing
from autoplace.sim.isolated import IsolatedRun as IsolatedRun
from autoplace.sim.isolated import run as run
from autoplace.sim.kernel_tables import names as kernel_table_names
from autoplace.sim.simulated_device import SimulatedDevice as SimulatedDevice
from autoplace.sim.simulated_device import device as device
from autoplace.sim.simulated_device import is_started as is_started
from autoplace.sim.simulated_device import start as start
from autoplace.sim.timing_profiles import TimingProfile as TimingProfile
from autoplace.sim.timing_profiles import names as profile_names

__all__ = [
    "Counters",
    "IsolatedRun",
    "SimulatedDevice",
    "TimingProfile",
    "counters",
    "device",
    "faults",
    "is_started",
    "kernel_table_names",
    "profile_names",
    "run",
    "set_faults",
    "start",
    "timing",
]
