"""A forecast as a value, with its faces: text, rich, JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autoplace.ir import Device

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType

SCHEMA = 1
CAVEATS = (
    "predicted from published figures, not measured: expect the order of the devices, not the milliseconds",
    "on the Mac itself autoplace measures and compares each layer before it uses the GPU for it",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitForecast:
    """What is predicted of one unit.

    Attributes:
        path: Path of the unit.
        class_name: Class of its layer.
        device: Device that it would be placed on.
        reason: Why, in a sentence.
        missing: Operations for which the GPU would have no kernel, by pass: ``forward``, ``backward``,
            ``update``; a pass without any is left out.
        rules: Ids of the rules that match: what people reported of such a layer on such a machine.
        cpu_ns: Nanoseconds per step on the CPU, all calls and passes.
        gpu_ns: The same on the GPU, where operations without a kernel fall back to the CPU.
    """

    path: str
    class_name: str
    device: Device
    reason: str
    missing: Mapping[str, tuple[str, ...]]
    rules: tuple[str, ...]
    cpu_ns: int
    gpu_ns: int


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is predicted of a model on a machine.

    Attributes:
        model: Name of the model.
        kind: ``train`` or ``predict``.
        batch: Rows of a batch.
        target: The plugin whose kernels count, such as ``tensorflow-metal==1.2.0``.
        macos: The macOS version, None for one that meets all conditions.
        profile: Name of the timing profile.
        chip: Its title.
        choice: ``all-cpu``, ``all-gpu`` or ``mixed``: the quickest by prediction.
        step_ns: Nanoseconds of a step by choice; ``mixed`` is missing where no such plan is better.
        units: One per unit, in the order in which they run.
        notes: What the prediction rests on and leaves out.
    """

    model: str
    kind: str
    batch: int
    target: str
    macos: str | None
    profile: str
    chip: str
    choice: str
    step_ns: Mapping[str, int]
    units: tuple[UnitForecast, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it; times in nanoseconds."""
        units = [
            {
                **asdict(unit),
                "device": str(unit.device),
                "missing": {which: list(ops) for which, ops in unit.missing.items()},
                "rules": list(unit.rules),
            }
            for unit in self.units
        ]
        return {
            "schema": SCHEMA,
            "model": self.model,
            "kind": self.kind,
            "batch": self.batch,
            "target": self.target,
            "macos": self.macos,
            "profile": self.profile,
            "chip": self.chip,
            "choice": self.choice,
            "step_ns": dict(self.step_ns),
            "units": units,
            "notes": list(self.notes),
        }

    @property
    def summary(self) -> str:
        """One sentence: which placement is predicted to be the quickest, and by how much."""
        others = {name: ns for name, ns in self.step_ns.items() if name != self.choice}
        best = self.step_ns[self.choice]
        against = ", ".join(
            f"{ns / max(best, 1):.1f}x as long {_WORDS[name]}" for name, ns in others.items()
        )
        doing = "trains" if self.kind == "train" else "predicts"
        return (
            f"{self.model!r} {doing} quickest {_WORDS[self.choice]}: {best / 1e6:.2f} ms per step of "
            f"{self.batch} by prediction, {against}"
        )

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(width=140, color_system=None, force_terminal=False)
        with console.capture() as captured:
            console.print(self)
        return captured.get()

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield the summary, a table of the units, and the notes."""
        from rich.table import Table
        from rich.text import Text

        where = f"{self.target} on {self.chip}" + (f", macOS {self.macos}" if self.macos else "")
        yield Text(f"{where}, batch {self.batch}", style="bold")
        yield Text(self.summary)
        table = Table(title="Units", title_justify="left")
        for name in (
            "unit",
            "class",
            "device",
            "CPU ms",
            "GPU ms",
            "no kernel for",
            "rules",
            "why",
        ):
            is_number = name.endswith("ms")
            table.add_column(name, justify="right" if is_number else "left", overflow="fold")
        for unit in self.units:
            missing = "; ".join(f"{p}: {', '.join(ops)}" for p, ops in unit.missing.items())
            cells = [unit.path, unit.class_name, str(unit.device)]
            cells += [f"{ns / 1e6:.3f}" for ns in (unit.cpu_ns, unit.gpu_ns)]
            cells += [missing, ", ".join(unit.rules), unit.reason]
            table.add_row(*map(Text, cells))
        yield table
        for note in self.notes:
            yield Text(f"- {note}")


_WORDS = {"all-cpu": "on the CPU alone", "all-gpu": "on the GPU alone", "mixed": "on both devices"}
