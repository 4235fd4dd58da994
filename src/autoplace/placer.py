"""What one model remembers about its placement, and the moments at which it is placed.

In: a Keras model with its policy. Out: the model on its devices, and a `Plan`. Never: a change of the model's
results, or of its state before the plan is decided.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import keras

from autoplace.engines.tensorflow import seams
from autoplace.engines.tensorflow.arm import Feed, on_cpu
from autoplace.engines.tensorflow.engine import TensorFlowEngine, TensorFlowSession
from autoplace.engines.tensorflow.first_batch import take
from autoplace.errors import (
    BrokenPlanFileError,
    ModelNotBuiltError,
    ModelNotCompiledError,
    NoDataError,
)
from autoplace.ir import CPU, Assignment, LayerGraph, Machine, Plan, Unit
from autoplace.probe import warmup
from autoplace.probe.cache import Cache, directory
from autoplace.rules import Policy, get_policy

if TYPE_CHECKING:
    from autoplace.probe.warmup import Outcome

TRAIN, TEST, PREDICT = "train_step", "test_step", "predict_step"
KINDS = {TRAIN: "train", TEST: "predict", PREDICT: "predict"}


class Placer:
    """The placement of one model.

    One plain object per model: Keras tracks lists and dictionaries that are attributes of a model, and would
    write them into checkpoints.

    Args:
        model: The model.
        policy: Its own policy, or None for the process's default.
    """

    def __init__(self, model: keras.Model, policy: Policy | None) -> None:
        self._model = model
        self._own_policy = policy
        self._plan: Plan | None = None
        self._wanted: Plan | None = None  # handed in by the user, not yet carried out
        self._is_users = False
        self._working = False
        self._is_unpinned = False
        self._optimizer: keras.optimizers.Optimizer | None = None  # the one that the plan is for

    @property
    def policy(self) -> Policy:
        """The policy in force for this model."""
        return self._own_policy or get_policy()

    def set_policy(self, policy: Policy) -> None:
        """Give the model a policy of its own; a plan made under another one is forgotten."""
        self._own_policy = policy
        self.forget()

    @property
    def plan(self) -> Plan | None:
        """The plan in force; where there is nothing to decide, the trivial one."""
        self._notice_compile()
        if self._plan is None and self._wanted is None and self.is_trivial():
            return trivial_plan(self._model, self._trivial_reason())
        return self._plan or self._wanted

    # ------------------------------------------------------------------------- Keras' functions

    def intercept(self, step: str, force: bool, make: Callable[[bool], Any]) -> Any:
        """Make a step function as Keras does, and place the model before it first runs.

        Args:
            step: ``train_step``, ``test_step`` or ``predict_step``.
            force: Keras' own argument.
            make: Keras' own `make_*_function`.
        """
        if self._working or self.is_trivial():
            return make(force)
        self._notice_compile()
        name = seams.STEP_FUNCTIONS[step][1]
        if getattr(self._model, name) is None or force:
            is_placed = self._plan_for(step) is not None
            made = self._placed_function(step) if is_placed else self._on_first_batch(step)
            seams.set_function(self._model, step, made)
        return getattr(self._model, name)

    def before_fit(self, arguments: dict[str, Any]) -> None:
        """Place a model before `fit` begins, where its data are arrays.

        So the warmup is over before callbacks begin, and before Keras' iterator starts its clock (see
        `seams.without_autotune`). Other data are taken from their iterator in `_on_first_batch`.
        """
        model = self._model
        self._notice_compile()
        if self._plan_for(TRAIN) is not None or self.is_trivial() or not model.compiled:
            return
        try:
            first = seams.first_batch_of_fit(model, arguments)
        except Exception:  # noqa: BLE001 - whatever is wrong with the data, `fit` says it in Keras' words
            return
        if first is not None:
            batch, spec = first
            self.place(Feed([batch] * model.steps_per_execution, spec), TRAIN)

    def _plan_for(self, step: str) -> Plan | None:
        """The plan in force if it is one for this step: a plan for training serves all."""
        is_enough = self._plan is not None and (step != TRAIN or self._plan.kind == "train")
        return self._plan if is_enough else None

    def _on_first_batch(self, step: str) -> Callable[[Any], Any]:
        def first(source: Any) -> Any:
            feed = take(source, self._model.steps_per_execution, step)
            if feed is None:
                # No data at all. Keras traces its function all the same, then warns in its own words.
                loops = [
                    (layer, "use_cudnn", False) for layer in seams.recurrent_layers(self._model)
                ]
                with seams.overridden(loops):
                    return self._plain_function(step)(source)
            self.place(feed, step)
            name = seams.STEP_FUNCTIONS[step][1]
            if getattr(self._model, name) is None or getattr(self._model, name) is first:
                seams.set_function(self._model, step, self._placed_function(step))
            return getattr(self._model, name)(feed.once(step))

        return first

    def _placed_function(self, step: str) -> Callable[[Any], Any]:
        with seams.without_jit(self._model):
            made = self._plain_function(step)
        return made if self._is_unpinned else on_cpu(made)

    def _plain_function(self, step: str) -> Callable[[Any], Any]:
        with self._at_work():
            return seams.new_function(self._model, step)

    # ---------------------------------------------------------------------------------- placing

    def place(self, feed: Feed, step: str) -> Plan:
        """Find a plan on the batches of `feed`, or take the one handed in, and carry it out.

        Raises:
            PlanDoesNotFitError: AP402, for a plan handed in that is another model's.
        """
        self.check_trainable(step)
        kind = KINDS[step]
        with self._at_work():
            engine = TensorFlowEngine()
            session = engine.session(self._model, feed, TRAIN if step == TRAIN else PREDICT)
            outcome = self._decide(engine, session, kind)
            self._release()
            outcome.arm.adopt()
        self._plan, self._wanted = outcome.plan, None
        self._optimizer = getattr(self._model, "optimizer", None)
        self._is_unpinned = outcome.arm.is_unpinned
        if step == TEST:  # the arm was a predict step; evaluate has a function of its own
            seams.set_function(self._model, TEST, None)
        return outcome.plan

    def _decide(self, engine: TensorFlowEngine, session: TensorFlowSession, kind: str) -> Outcome:
        simulation, timing = _simulation()
        machine = engine.machine(simulation)
        if self._wanted is not None:
            plan = self._wanted.for_graph(session.graph)
            for device in set(plan.devices.values()):
                engine.check_device(device)
            return warmup.Outcome(plan=plan, arm=session.arm(plan.devices))
        policy = self.policy
        cache = Cache(directory(policy.cache_dir) if policy.cache else None, machine)
        try:
            return warmup.make_plan(
                engine, session, policy, cache, machine, timing=timing, kind=kind
            )
        finally:
            cache.close()

    def use(self, plan: Plan) -> None:
        """Take a plan that was made before; it is carried out with the next batch.

        Raises:
            PlanDoesNotFitError: AP402, as soon as the model's units are known.
            UnknownDeviceError: AP401, for a device that this machine does not have.
        """
        if not isinstance(plan, Plan):
            raise BrokenPlanFileError(
                "use_plan got something that is no plan",
                expected="an autoplace.Plan",
                received=repr(type(plan)),
                fix="load a plan file with autoplace.Plan.load(path)",
            )
        engine = TensorFlowEngine()
        for device in set(plan.devices.values()):
            engine.check_device(device)
        graph = self._graph_of_inputs(engine)
        if graph is not None:
            plan.check_fits(graph)
        self._wanted, self._is_users, self._plan = plan, True, None
        self.forget_functions()

    def _graph_of_inputs(self, engine: TensorFlowEngine) -> LayerGraph | None:
        """The model's units, where its inputs are known without a batch."""
        inputs = getattr(self._model, "inputs", None)
        if not inputs or not seams.is_model_built(self._model):
            return None
        with self._at_work():
            feed = Feed([(seams.example_inputs(self._model),)])
            return engine.session(self._model, feed, PREDICT).graph

    def forget(self) -> None:
        """Forget the plan, but for one that the user handed in: that one is carried out anew."""
        if self._plan is not None and self._is_users:
            self._wanted = self._plan
        self._plan = None
        self._release()

    def _notice_compile(self) -> None:
        """Forget a plan that was measured for another optimizer.

        Not by overriding `compile`: Keras would then no longer compile a model that it loads or clones.
        """
        is_for_training = self._plan is not None and self._plan.kind == "train"
        has_changed = getattr(self._model, "optimizer", None) is not self._optimizer
        if is_for_training and has_changed and not self._working:
            self.forget()

    def forget_functions(self) -> None:
        """Let Keras make all step functions anew."""
        for step in seams.STEP_FUNCTIONS:
            seams.set_function(self._model, step, None)

    def _release(self) -> None:
        """Take the pins of an earlier plan off the model."""
        for step in seams.STEP_FUNCTIONS:
            self._model.__dict__.pop(step, None)
        self.forget_functions()

    # ------------------------------------------------------------------------------------ checks

    def check_trainable(self, step: str) -> None:
        """Raise AP202 where training is asked of a model that is not compiled."""
        if step == TRAIN and not self._model.compiled:
            raise ModelNotCompiledError(
                "the model is to be warmed up for training, and it is not compiled",
                expected="model.compile(optimizer, loss) before warmup",
                received=f"{self._model.name!r} without a loss and an optimizer",
                fix="call model.compile(...) first",
            )

    def is_trivial(self) -> bool:
        """Whether there is nothing to place: no accelerator, mode off, or a distribution strategy."""
        return bool(self._trivial_reason())

    def _trivial_reason(self) -> str:
        """Why there is nothing to place, or an empty string."""
        if self.policy.mode == "off":
            return "placed by TensorFlow: the policy's mode is off"
        if getattr(self._model, "_distribute_strategy", None) is not None:
            return "placed by the model's distribution strategy"
        if TensorFlowEngine().accelerator() is None:
            return "no accelerator on this machine"
        return ""

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        """Let Keras' own functions through while we make them ourselves."""
        before, self._working = self._working, True
        try:
            yield
        finally:
            self._working = before


def check_first_rows(feed: Feed | None, model: keras.Model) -> Feed:
    """Return `feed`, or raise where there is no batch in it, or no row in its first batch.

    Raises:
        NoDataError: AP301.
    """
    first = None if feed is None else next(iter(keras.tree.flatten(feed.batches[0])), None)
    shape = tuple(getattr(first, "shape", ()))
    if feed is None or first is None or shape[:1] == (0,):
        raise NoDataError(
            "warmup got no batch",
            expected=f"at least one row of data for {model.name!r}",
            received="an empty dataset" if feed is None else "a batch without rows",
            fix="call model.warmup(x, y) with data as for fit",
        )
    return feed


def trivial_plan(model: keras.Model, why: str) -> Plan:
    """Return the plan where there is nothing to decide; made from the list of layers, without a trace.

    Raises:
        ModelNotBuiltError: AP201, for a model without layers yet.
    """
    leaves = [
        layer
        for layer in seams.all_layers(model)
        if not seams.sublayers(layer) and not isinstance(layer, keras.layers.InputLayer)
    ]
    if not leaves and not model.built:
        raise ModelNotBuiltError(
            "the model has no layers yet, so there is no plan",
            expected="a built model",
            received=f"{model.name!r}, not built",
            fix="call the model on a batch, or fit it, first",
        )
    names: dict[str, keras.layers.Layer] = {}
    for layer in leaves:
        name, number = str(layer.name), 1
        while name in names:
            number += 1
            name = f"{layer.name}#{number}"
        names[name] = layer
    units = tuple(
        Unit(
            path=name,
            class_name=type(layer).__name__,
            signature="",
            parameters=sum(int(w.shape.num_elements() or 0) for w in layer.weights),
        )
        for name, layer in names.items()
    )
    graph = LayerGraph(
        model_name=str(model.name), model_kind=seams.kind_of(model), batch_size=0, units=units
    )
    return Plan(
        graph=graph,
        units=tuple(Assignment(path=unit.path, device=CPU, reason=why) for unit in units),
        machine=Machine(devices={"cpu:0": "the only device in use"}),
    )


def _simulation() -> tuple[Mapping[str, str] | None, Callable[[], AbstractContextManager[object]]]:
    """The description of the simulated device, and its timing; neither for a real one."""
    from autoplace import sim

    device = sim.device()
    if device is None:
        return None, warmup.untimed
    return device.describe(), sim.timing
