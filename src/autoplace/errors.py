"""Every error and warning that autoplace raises, each with a stable code.

    AutoplaceError
    ├── EnvironmentProblem   AP1xx   the machine, TensorFlow, the compiler, the simulated device
    ├── ModelProblem         AP2xx   the model that was handed in
    ├── ProbeProblem         AP3xx   measuring
    ├── PlanProblem          AP4xx   plans, pins, planner input
    ├── GuardProblem         AP5xx   what the guard found while training
    └── FileProblem          AP6xx   rules, caches and other files
    AutoplaceWarning

Each class is also the builtin exception that a caller would catch without knowing us.
"""

from __future__ import annotations

from typing import ClassVar


class AutoplaceError(Exception):
    """Base of all errors: a code, what happened, what was expected, received, and how to mend it.

    Attributes:
        code: Stable identifier such as ``AP402``; a section of ``docs/errors.md`` has its name.
        what: One sentence on what happened.
        expected: What would have been right.
        received: What was found instead, with the user's own values.
        fix: What the user can do.
    """

    code: ClassVar[str] = "AP000"

    def __init__(self, what: str, *, expected: str, received: str, fix: str) -> None:
        self.what = what
        self.expected = expected
        self.received = received
        self.fix = fix
        super().__init__(
            f"{self.code}: {what}\n  Expected: {expected}\n  Received: {received}\n  Fix: {fix}"
        )

    def to_dict(self) -> dict[str, str]:
        """Return the parts as strings, for logs, JSON output and crossing a process border."""
        return {
            "code": self.code,
            "what": self.what,
            "expected": self.expected,
            "received": self.received,
            "fix": self.fix,
        }


class AutoplaceWarning(UserWarning):
    """Something was done differently than asked or planned; training goes on."""


# ------------------------------------------------------------------------------ AP1xx environment


class EnvironmentProblem(AutoplaceError, RuntimeError):
    """The machine or an installed package does not allow what was asked."""

    code = "AP100"


class TensorFlowMissingError(EnvironmentProblem, ImportError):
    """TensorFlow is not installed, or Keras runs on another backend."""

    code = "AP101"


class CompilerMissingError(EnvironmentProblem):
    """The simulated device has to be built and there is no C++ compiler."""

    code = "AP102"


class SimulatorBuildError(EnvironmentProblem):
    """The C++ compiler failed on the simulated device."""

    code = "AP103"


class DevicesAlreadyStartedError(EnvironmentProblem):
    """TensorFlow had set up its devices before the simulated one could be added."""

    code = "AP104"


class SimulatorUnsupportedError(EnvironmentProblem):
    """This TensorFlow build, operating system or second plugin does not admit the simulated device."""

    code = "AP105"


class UnknownSimulationError(EnvironmentProblem, ValueError):
    """A kernel table, timing profile, scale or fault of an unknown name was asked for."""

    code = "AP106"


class MissingExtraError(EnvironmentProblem, ImportError):
    """A feature needs an optional package that is not installed."""

    code = "AP107"


# ------------------------------------------------------------------------------------ AP2xx model


class ModelProblem(AutoplaceError, ValueError):
    """The model cannot be traced or trained as it is."""

    code = "AP200"


class ModelNotBuiltError(ModelProblem):
    """The model has no weights yet and no batch from which to build it."""

    code = "AP201"


class ModelNotCompiledError(ModelProblem):
    """Training was asked for before `compile`."""

    code = "AP202"


class NotAModelError(ModelProblem, TypeError):
    """Something that is not a Keras model was handed in."""

    code = "AP203"


# ------------------------------------------------------------------------------------ AP3xx probe


class ProbeProblem(AutoplaceError, RuntimeError):
    """A measurement could not be made."""

    code = "AP300"


class NoDataError(ProbeProblem, ValueError):
    """Warmup got no batch at all."""

    code = "AP301"


class OneShotDataError(ProbeProblem, TypeError):
    """Explicit warmup would swallow a batch of a one-shot iterator."""

    code = "AP302"


# ------------------------------------------------------------------------------------- AP4xx plan


class PlanProblem(AutoplaceError, ValueError):
    """A plan, a pin or the planner's input is not usable."""

    code = "AP400"


class UnknownDeviceError(PlanProblem):
    """A device is not one of this machine's, or not spelled like `cpu:0`."""

    code = "AP401"


class PlanDoesNotFitError(PlanProblem):
    """The plan was made for another model."""

    code = "AP402"


class UnknownUnitError(PlanProblem, KeyError):
    """No unit has the given path."""

    code = "AP403"

    # KeyError shows the repr of its argument, which would turn the four lines into one.
    __str__ = Exception.__str__


class PinCannotHoldError(PlanProblem):
    """Pins contradict each other, match nothing, or ask for a device that cannot run the unit."""

    code = "AP404"


class InvalidPolicyError(PlanProblem):
    """A field of `Policy`, or its environment variable, has a value that it cannot have."""

    code = "AP405"


class PlannerInputError(PlanProblem):
    """Costs, edges or pins given to the planner are inconsistent."""

    code = "AP406"


# ------------------------------------------------------------------------------------ AP6xx files


class FileProblem(AutoplaceError, ValueError):
    """A file is broken, cut off, or of an unknown schema."""

    code = "AP600"


class BrokenPlanFileError(FileProblem):
    """A plan file cannot be read as a plan."""

    code = "AP601"


class CacheUnusableWarning(AutoplaceWarning):
    """AP602: the cost cache is broken or cannot be written; measuring goes on without it."""

    code = "AP602"


class BrokenRulesFileError(FileProblem):
    """A rules file cannot be read, or a rule in it is not valid."""

    code = "AP603"


class RulesSetAsideWarning(AutoplaceWarning):
    """AP604: a rules file of the user's is not valid and is not used."""

    code = "AP604"


class UnknownRuleError(FileProblem, KeyError):
    """No rule has the given id."""

    code = "AP605"

    # As in UnknownUnitError.
    __str__ = Exception.__str__
