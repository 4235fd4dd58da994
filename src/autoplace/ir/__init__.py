"""The words of autoplace as values: devices, units, edges, costs, verdicts, plans.

In: plain Python numbers and strings. Out: frozen dataclasses that are valid or do not exist, and their
JSON. Never: a framework, a file other than a plan, a clock.
"""

from autoplace.ir.costs import MIB as MIB
from autoplace.ir.costs import CostTable as CostTable
from autoplace.ir.costs import TransferCost as TransferCost
from autoplace.ir.costs import UnitCost as UnitCost
from autoplace.ir.devices import CPU as CPU
from autoplace.ir.devices import GPU as GPU
from autoplace.ir.devices import Device as Device
from autoplace.ir.evidence import Event as Event
from autoplace.ir.evidence import GateResult as GateResult
from autoplace.ir.evidence import Machine as Machine
from autoplace.ir.evidence import Parity as Parity
from autoplace.ir.evidence import ProbeSummary as ProbeSummary
from autoplace.ir.evidence import StepTime as StepTime
from autoplace.ir.evidence import Verdict as Verdict
from autoplace.ir.evidence import VerdictState as VerdictState
from autoplace.ir.graph import INPUT as INPUT
from autoplace.ir.graph import Edge as Edge
from autoplace.ir.graph import LayerGraph as LayerGraph
from autoplace.ir.graph import Unit as Unit
from autoplace.ir.operations import Operation as Operation
from autoplace.ir.operations import StepOperations as StepOperations
from autoplace.ir.operations import Tensor as Tensor
from autoplace.ir.operations import UnitOperations as UnitOperations
from autoplace.ir.plan import ALL_CPU as ALL_CPU
from autoplace.ir.plan import ALL_GPU as ALL_GPU
from autoplace.ir.plan import MIXED as MIXED
from autoplace.ir.plan import Assignment as Assignment
from autoplace.ir.plan import Plan as Plan
