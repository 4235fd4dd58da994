"""From costs to a placement: the minimum cut, its oracle, and the statistics of the gate.

In: a `LayerGraph`, a `CostTable`, pins; or samples of time. Out: a `Solution`, intervals, a decision, all in
integer nanoseconds where they are times. Never: a framework, a clock, a measurement.
"""

from autoplace.planner.cut import solve as solve
from autoplace.planner.exhaustive import solve_exhaustively as solve_exhaustively
from autoplace.planner.intervals import RatioInterval as RatioInterval
from autoplace.planner.intervals import decide as decide
from autoplace.planner.intervals import ratio_interval as ratio_interval
from autoplace.planner.intervals import rounds_needed as rounds_needed
from autoplace.planner.intervals import step_time as step_time
from autoplace.planner.objective import Solution as Solution
from autoplace.planner.objective import predict_step_ns as predict_step_ns
