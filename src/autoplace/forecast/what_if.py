"""`autoplace.what_if`: a Keras model in, a `Forecast` out."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras

from autoplace import rules
from autoplace.engines.tensorflow import devices, kernels, seams
from autoplace.engines.tensorflow.unrun_step import read_step
from autoplace.errors import ModelNotBuiltError, NotAModelError
from autoplace.forecast.forecast import CAVEATS, Forecast, UnitForecast
from autoplace.forecast.predict import predict
from autoplace.ir import CPU, GPU, LayerGraph, Operation, StepOperations, Verdict
from autoplace.sim import kernel_tables, timing_profiles

DEFAULT_BATCH = 32


def what_if(
    model: keras.Model,
    x: Any = None,
    y: Any = None,
    *,
    target: str = kernel_tables.NEWEST,
    profile: str = timing_profiles.DEFAULT,
    batch: int | None = None,
    macos: str | None = None,
    optimizer: str | keras.optimizers.Optimizer | None = None,
    open_size: int | None = None,
) -> Forecast:
    """Predict where the layers of a model would run on a Mac, and how long a step would take there.

    Nothing is run: the step is traced, its operations looked up in the kernel table of `target` and priced by
    the figures of `profile`. No compiler, Mac or simulated device is needed.

    Args:
        model: A Keras model. If it is compiled the forecast is for training, else for `predict`.
        x: A batch of inputs, or more rows than that; by default made from the shapes that the model states.
        y: Targets for `x`. Without them the compiled loss and metrics are not counted.
        target: Plugin and version, one of `autoplace.sim.kernel_table_names()`.
        profile: Chip, one of `autoplace.sim.profile_names()`.
        batch: Rows per batch; by default those of `x`, or 32.
        macos: macOS version such as ``"13"``; by default one that meets all conditions of the plugin.
        optimizer: For a model that is not compiled: forecast training with this optimizer.
        open_size: Size of dimensions that the model leaves open, besides the batch, where `x` is not given.

    Returns:
        The forecast: `str()` shows it, `to_dict()` has it as data with times in nanoseconds.

    Raises:
        NotAModelError: AP203, for anything but a Keras model.
        ModelNotBuiltError: AP201, for a model whose input shapes are not known, without `x`.
        UnknownSimulationError: AP106, for a target or profile that there is not, or a macOS that it does not run on.
        TensorFlowMissingError: AP101, where Keras runs on another backend.
    """
    devices.check_backend()
    if not isinstance(model, keras.Model):
        raise NotAModelError(
            "there is no forecast for this",
            expected="a keras.Model",
            received=repr(type(model)),
            fix="pass the model itself",
        )
    chip = timing_profiles.load(profile)
    kernel_tables.macos_version(target, macos)
    has_cudnn = _has_cudnn(target)
    x = _inputs(model, batch, open_size) if x is None else _rows(x, batch)
    has_targets = y is not None and model.compiled
    data = (x, _rows(y, batch)) if has_targets else (x,)
    used = _optimizer(model, optimizer)
    read = functools.partial(
        read_step, model, data, optimizer=used, has_targets=has_targets and not optimizer
    )
    graph, on_cpu, facts = read(has_cudnn=False)
    on_gpu = read(has_cudnn=True)[1] if has_cudnn and seams.recurrent_layers(model) else on_cpu

    @functools.cache
    def known(op: str, dtypes: tuple[tuple[str, Any], ...]) -> kernel_tables.Match:
        return kernel_tables.lookup(target, op, dict(dtypes), macos=macos)

    def lookup(operation: Operation) -> kernel_tables.Match:
        return known(operation.op, tuple(sorted(operation.dtypes.items())))

    suspected = rules.by_unit(_suspicions(graph, facts, on_gpu, target, macos, chip.title, used))
    found = predict(graph, on_cpu, on_gpu, lookup, chip, _verdicts(suspected))
    notes = list(CAVEATS)
    if used is not None and not has_targets:
        notes.insert(0, "loss and metrics are not counted, as no targets were given")
    return Forecast(
        model=graph.model_name,
        kind="predict" if used is None else "train",
        batch=graph.batch_size,
        target=target,
        macos=macos,
        profile=profile,
        chip=chip.title,
        choice=found.choice,
        step_ns=found.step_ns,
        units=tuple(
            UnitForecast(
                path=unit.path,
                class_name=unit.class_name,
                device=found.devices[unit.path],
                reason=found.reasons[unit.path],
                missing=found.missing[unit.path],
                rules=tuple(suspicion.rule.id for suspicion in suspected.get(unit.path, ())),
                cpu_ns=found.costs.units[unit.path][CPU].total_ns,
                gpu_ns=found.costs.units[unit.path][GPU].total_ns,
            )
            for unit in graph.units
        ),
        notes=tuple(notes),
    )


def suspicions(
    model: keras.Model,
    x: Any = None,
    *,
    target: str = kernel_tables.NEWEST,
    profile: str = timing_profiles.DEFAULT,
    macos: str | None = None,
    optimizer: str | keras.optimizers.Optimizer | None = None,
    files: Sequence[str] = (),
) -> tuple[rules.Suspicion, ...]:
    """Return the rules that apply to the layers of a model on a Mac that need not be here.

    Args:
        model: As for `what_if`, as are the others.
        x: A batch of inputs.
        target: The plugin and its version.
        profile: Name of the timing profile, which names the chip.
        macos: The macOS version, None where it is open.
        optimizer: Forecast training with it.
        files: Rule files besides those of the policy.
    """
    chip = timing_profiles.load(profile)
    kernel_tables.macos_version(target, macos)
    used = _optimizer(model, optimizer)
    x = _inputs(model, None, 1) if x is None else x
    graph, operations, facts = read_step(
        model,
        (x,),
        optimizer=used,
        has_targets=False,
        has_cudnn=_has_cudnn(target),
    )
    return _suspicions(graph, facts, operations, target, macos, chip.title, used, files=files)


def _suspicions(
    graph: LayerGraph,
    facts: Sequence[rules.UnitFacts],
    operations: StepOperations,
    target: str,
    macos: str | None,
    chip: str,
    optimizer: Any,
    *,
    files: Sequence[str] = (),
) -> tuple[rules.Suspicion, ...]:
    """What people reported of such units on the machine that is asked for."""
    plugin, _, version = target.partition("==")
    around = rules.Surroundings(
        # Which TensorFlow and which Python that Mac has is not known: the rules stay open there.
        versions={"keras": keras.__version__, **({"macos": macos} if macos else {})},
        plugins={plugin: version},
        machine="arm64",
        chip=chip,
        optimizer=() if optimizer is None else (type(optimizer).__name__,),
        training=optimizer is not None,
    )
    known = {path: {op.op for op in unit.all} for path, unit in operations.units.items()}
    complete = [replace(unit, ops=unit.ops | known.get(unit.path, set())) for unit in facts]
    in_force = rules.load((*rules.get_policy().rules, *files))
    return rules.suspicions(in_force, complete, graph.edges, around)


def _verdicts(suspected: Mapping[str, tuple[rules.Suspicion, ...]]) -> dict[str, Verdict]:
    """Where nothing can be run, a rule acts alone: what it is sure of decides."""
    found = {}
    for path, suspicions in suspected.items():
        acting = [s.rule for s in suspicions if s.rule.forbids and not s.open]
        verdict = rules.verdict_by(acting)
        if verdict is not None:
            found[path] = verdict
    return found


def _optimizer(model: keras.Model, given: str | keras.optimizers.Optimizer | None) -> Any:
    """The optimizer to forecast training with: the one that is given, else the compiled one, else None."""
    return keras.optimizers.get(given) if given else getattr(model, "optimizer", None)


def _has_cudnn(target: str) -> bool:
    return kernels.CUDNN_RNN in kernel_tables.ops(target)


def _rows(data: Any, batch: int | None) -> Any:
    return data if batch is None else keras.tree.map_structure(lambda part: part[:batch], data)


def _inputs(model: keras.Model, batch: int | None, open_size: int | None) -> Any:
    if not getattr(model, "inputs", None):
        raise ModelNotBuiltError(
            "the model does not say what it takes, so no batch can be made for it",
            expected="a functional model, a Sequential with an Input, or a batch of inputs",
            received=f"{model.name!r} without inputs",
            fix="pass a batch: autoplace.what_if(model, x)",
        )
    shapes = [tuple(tensor.shape) for tensor in model.inputs]
    if open_size is None and any(None in shape[1:] for shape in shapes):
        raise ModelNotBuiltError(
            "the model takes inputs of any length, and the time depends on it",
            expected="a batch of inputs, or a size for the open dimensions",
            received=f"input shapes {shapes}",
            fix="pass open_size=128, or a batch: autoplace.what_if(model, x)",
        )
    return seams.example_inputs(model, batch or DEFAULT_BATCH, open_size or 1)
