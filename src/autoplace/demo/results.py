"""What the demo found: one value per model, and its table, its page and its data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoplace import planner
from autoplace.report import Report
from autoplace.report.data import finite_or_none
from autoplace.report.files import write_whole

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA = 1
CONFIDENCE = 0.95
CPU_ARM, GPU_ARM, PLAN_ARM = "plain Keras, CPU", "plain Keras, GPU", "SmartModel"
"""Names of the sides that are compared."""

LOSS_TOLERANCE = 0.01
"""Largest relative difference of a final loss from that of plain Keras on the CPU.

Rounding differs between devices (see engines/tensorflow/tolerances.py) and grows with every step: about
600 of dnn9. A layer that is computed wrongly, such as a dense layer without its activation, is off by far more.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was seen of one model.

    Attributes:
        name: Name of the model.
        batch: Rows of a batch.
        report: The report on the planned model.
        losses: Loss of the last epoch by arm.
        samples_ns: Time per step by arm, one for each round; the arms were timed in turns.
    """

    name: str
    batch: int
    report: Report
    losses: Mapping[str, float]
    samples_ns: Mapping[str, Sequence[int]]

    @property
    def better_single(self) -> str:
        """Name of the faster of plain Keras on the CPU and on the accelerator."""
        singles = [name for name in (CPU_ARM, GPU_ARM) if name in self.samples_ns]
        return min(singles, key=lambda name: planner.step_time(self.samples_ns[name]).median_ns)

    @property
    def ratio(self) -> planner.RatioInterval:
        """Time of the planned model over that of the better single device."""
        return planner.ratio_interval(
            self.samples_ns[PLAN_ARM], self.samples_ns[self.better_single], CONFIDENCE
        )

    @property
    def loss_difference(self) -> float:
        """Relative difference of the planned model's final loss from that of plain Keras on the CPU."""
        want = self.losses[CPU_ARM]
        return abs(self.losses[PLAN_ARM] - want) / max(abs(want), 1e-12)

    @property
    def is_right(self) -> bool:
        """Whether the planned model learned what plain Keras learns on the CPU; False for NaN."""
        return self.loss_difference <= LOSS_TOLERANCE

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, with all samples."""
        times = {name: planner.step_time(samples) for name, samples in self.samples_ns.items()}
        return {
            "batch": self.batch,
            "choice": self.report.plan.choice,
            "step_times_ns": {
                name: {
                    "median": time.median_ns,
                    "low": time.low_ns,
                    "high": time.high_ns,
                    "rounds": time.rounds,
                }
                for name, time in times.items()
            },
            "better_single": self.better_single,
            "ratio": {
                "ratio": self.ratio.ratio,
                "low": self.ratio.low,
                "high": finite_or_none(self.ratio.high),
                "confidence": CONFIDENCE,
            },
            "final_loss": {name: finite_or_none(loss) for name, loss in self.losses.items()},
            "loss_difference": finite_or_none(self.loss_difference),
            "loss_tolerance": LOSS_TOLERANCE,
            "warmup_seconds": self.report.plan.probe.seconds,
            "samples_ns": {name: list(samples) for name, samples in self.samples_ns.items()},
        }


HEADER = (
    "model",
    "batch",
    "CPU ms",
    "GPU ms",
    "plan ms",
    "choice",
    "times faster than the better single device",
    "final loss: CPU",
    "loss: GPU",
    "loss: SmartModel",
    "warmup s",
)


def cells(result: Result) -> tuple[str, ...]:
    """Return one row of the table, below `HEADER`."""
    times = {
        name: f"{planner.step_time(samples).median_ns / 1e6:.2f}"
        for name, samples in result.samples_ns.items()
    }
    ratio = result.ratio
    high = f"{1 / ratio.low:.2f}" if ratio.low else "unbounded"
    return (
        result.name,
        str(result.batch),
        times[CPU_ARM],
        times.get(GPU_ARM, "-"),
        times[PLAN_ARM],
        result.report.plan.choice,
        f"{1 / ratio.ratio:.2f} ({1 / ratio.high:.2f} to {high})",
        f"{result.losses[CPU_ARM]:.5f}",
        f"{result.losses[GPU_ARM]:.5f}" if GPU_ARM in result.losses else "-",
        f"{result.losses[PLAN_ARM]:.5f}",
        f"{result.report.plan.probe.seconds:.2f}",
    )


def table(results: Sequence[Result]) -> Table:
    """Return the results for a rich console."""
    from rich.table import Table

    made = Table(
        caption=f"median ms per step, arms timed in turns; {CONFIDENCE:.0%} interval of the ratio",
        caption_justify="left",
    )
    for number, name in enumerate(HEADER):
        made.add_column(name, justify="left" if number in (0, 5) else "right", overflow="fold")
    for result in results:
        made.add_row(*cells(result))
    return made


def data(results: Sequence[Result]) -> dict[str, Any]:
    """Return everything as data: one `report.to_dict()` per model, and the demo's own figures."""
    return {
        "schema": SCHEMA,
        "models": {result.name: result.report.to_dict() for result in results},
        "results": {result.name: result.to_dict() for result in results},
    }


def text(results: Sequence[Result]) -> str:
    """Return `data` as JSON text; a loss that is not finite is null, since JSON has no NaN."""
    return json.dumps(data(results), indent=1, allow_nan=False) + "\n"


def write(results: Sequence[Result], folder: Path) -> tuple[Path, Path]:
    """Write `report.html` and `report.json` into `folder`, which is made if it is not there.

    Raises:
        OSError: If the folder cannot be made or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page, raw = folder / "report.html", folder / "report.json"
    write_whole(page, html(results))
    write_whole(raw, text(results))
    return page, raw


def html(results: Sequence[Result]) -> str:
    """Return one page with the table and the report of each model."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("autoplace.demo"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("demo.html.jinja").render(
        header=HEADER,
        rows=[cells(result) for result in results],
        # The fragments were escaped when they were made, by the same engine.
        reports=[Markup(result.report._repr_html_()) for result in results],  # noqa: S704 - see above
        confidence=f"{CONFIDENCE:.0%}",
    )
