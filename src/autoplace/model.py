"""`SmartModel` and its family: Keras models whose layers are placed with their first batch.

The classes are thin: they answer to Keras as plain models do (same names in files, same constructors) and hand
every decision to their `Placer`.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any

import keras
from keras.src import api_export
from keras.src.models.functional import Functional
from keras.src.models.model import functional_init_arguments
from keras.src.saving.object_registration import GLOBAL_CUSTOM_NAMES

from autoplace.engines.tensorflow.arm import Feed
from autoplace.engines.tensorflow.data import first_batches
from autoplace.errors import ModelNotBuiltError, NotAModelError
from autoplace.ir import Plan
from autoplace.placer import PREDICT, TEST, TRAIN, Placer, check_first_rows
from autoplace.report import Report
from autoplace.rules import Policy

if TYPE_CHECKING:
    from typing_extensions import Self

_PLACER = "_autoplace_placer"
_FIT = inspect.signature(keras.Model.fit)


class SmartModel(keras.Model):
    """A `keras.Model` that runs each layer where it is fastest and right.

    Use it as `keras.Model`: with inputs and outputs, or as a base class. The first batch of `fit` is used for
    a warmup, which measures the layers on the CPU and on the accelerator; it is trained on as always.

    Args:
        *args: As for `keras.Model`.
        policy: What may be done, keyword only; None for the process's default (`autoplace.set_policy`).
        **kwargs: As for `keras.Model`.

    Example:
        >>> import keras, autoplace
        >>> inputs = keras.Input((4,))
        >>> model = autoplace.SmartModel(inputs, keras.layers.Dense(1)(inputs))
        >>> model.plan.choice  # doctest: +SKIP
        'all-cpu'
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Give a functional model its own class, as Keras does, without touching `SmartModel` itself."""
        is_functional = cls is SmartModel and functional_init_arguments(args, kwargs)
        # type.__call__ then runs the __init__ of the class that is returned.
        made: Self = super().__new__(SmartFunctional if is_functional else cls, *args, **kwargs)
        return made

    def __init__(self, *args: Any, policy: Policy | None = None, **kwargs: Any) -> None:
        if functional_init_arguments(args, kwargs) and not isinstance(self, Functional):
            _inject(type(self))  # Keras' own injection would make SmartModel itself functional
            Functional.__init__(self, *args, **kwargs)
        else:
            super().__init__(*args, **kwargs)
        _attach(self, policy)

    # ------------------------------------------------------------------------------------- ours

    @property
    def plan(self) -> Plan | None:
        """The plan in force, or None before the first batch."""
        return placer_of(self).plan

    @property
    def policy(self) -> Policy:
        """The policy in force for this model."""
        return placer_of(self).policy

    def warmup(self, x: Any, y: Any = None, *, batch_size: int | None = None) -> Plan:
        """Measure and place now, instead of with the first batch of `fit`.

        The model's weights, its optimizer, its metrics and all random numbers are after it what they were
        before.

        Args:
            x: As for `fit`: arrays, or a tf.data.Dataset of ``(x, y)``.
            y: Targets of shape ``(rows, ...)``; None to warm up for inference, or where `x` is a dataset.
            batch_size: Rows of a batch of arrays; 32 as in `fit` if None.

        Returns:
            The plan, which is carried out from here on.

        Raises:
            NoDataError: AP301, where there is no row.
            OneShotDataError: AP302, for an iterator or generator, which would lose a batch.
            ModelNotCompiledError: AP202, for training without `compile`.
        """
        batches, spec = first_batches(x, y, batch_size, self.steps_per_execution)
        feed = check_first_rows(Feed(batches, spec) if batches else None, self)
        has_target = isinstance(feed.batches[0], tuple) and len(feed.batches[0]) > 1
        placer = placer_of(self)
        if not placer.is_trivial():
            placer.place(feed, TRAIN if has_target else PREDICT)
        else:
            placer.check_trainable(TRAIN if has_target else PREDICT)
        plan = placer.plan
        if plan is None:  # cannot be: it was placed just now, or is trivial
            raise RuntimeError("no plan after warmup")
        return plan

    def use_plan(self, plan: Plan) -> None:
        """Use a plan that was made before, instead of measuring.

        Args:
            plan: A plan of this model, such as from `autoplace.Plan.load(path)`.

        Raises:
            PlanDoesNotFitError: AP402, for the plan of another model; of a model that has not seen a batch
                yet this is only found with the first one.
            UnknownDeviceError: AP401, for a device that this machine does not have.
        """
        placer_of(self).use(plan)

    # ------------------------------------------------------------------------------------ Keras'

    @functools.wraps(keras.Model.fit)
    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """As `keras.Model.fit`, after a warmup where there is no plan yet."""
        arguments = _FIT.bind(self, *args, **kwargs).arguments
        placer_of(self).before_fit(dict(arguments))
        history: keras.callbacks.History = super().fit(*args, **kwargs)
        return history

    def make_train_function(self, force: bool = False) -> Any:
        """As in Keras; called by `fit` and `train_on_batch`."""
        return placer_of(self).intercept(TRAIN, force, super().make_train_function)

    def make_test_function(self, force: bool = False) -> Any:
        """As in Keras; called by `evaluate` and `test_on_batch`."""
        return placer_of(self).intercept(TEST, force, super().make_test_function)

    def make_predict_function(self, force: bool = False) -> Any:
        """As in Keras; called by `predict` and `predict_on_batch`."""
        return placer_of(self).intercept(PREDICT, force, super().make_predict_function)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and deepcopy; Keras' form names `type(self)`, which `smart` may have made."""
        return _unpickle, super().__reduce__()[1]


class SmartFunctional(SmartModel, Functional):
    """What `SmartModel(inputs, outputs)` makes."""

    def __init__(
        self,
        inputs: Any,
        outputs: Any,
        name: str | None = None,
        *,
        policy: Policy | None = None,
        **kwargs: Any,
    ) -> None:
        Functional.__init__(self, inputs, outputs, name=name, **kwargs)
        _attach(self, policy)


class SmartSequential(SmartModel, keras.Sequential):
    """A `keras.Sequential` that runs each layer where it is fastest and right.

    Args:
        layers: As for `keras.Sequential`.
        trainable: As for `keras.Sequential`.
        name: As for `keras.Sequential`.
        policy: What may be done, keyword only; None for the process's default.
    """

    def __init__(
        self,
        layers: Any = None,
        trainable: bool = True,
        name: str | None = None,
        *,
        policy: Policy | None = None,
    ) -> None:
        keras.Sequential.__init__(self, layers=layers, trainable=trainable, name=name)
        _attach(self, policy)


# Keras writes a model's layers into its config only where the constructor reads like that of Functional itself. In
# Keras 3.5 that one is wrapped and reads (*args, **kwargs), later (inputs, outputs, name, **kwargs).
vars(SmartFunctional.__init__)["__signature__"] = inspect.signature(
    Functional.__init__, follow_wrapped=False
)


def _inject(cls: type) -> type:
    """Keras' inject_functional_model_class, stopped at SmartModel."""
    if cls is SmartModel:
        return SmartFunctional
    if issubclass(cls, SmartModel) and not issubclass(cls, Functional):
        cls.__bases__ = tuple(_inject(base) for base in cls.__bases__)
    return cls


_SMART: dict[type, type] = {
    Functional: SmartFunctional,
    keras.Sequential: SmartSequential,
    keras.Model: SmartModel,
}
# Files must read as if plain Keras had written them: .keras and JSON ask the registry, then module and name;
# .h5, TensorBoard and default names ask __name__. __qualname__ stays ours. (Keras 3.5 to 3.15.)
SmartFunctional.__module__, SmartFunctional.__name__ = Functional.__module__, "Functional"
SmartSequential.__name__ = "Sequential"
api_export.REGISTERED_OBJS_TO_NAMES[SmartSequential] = "keras.Sequential"


def _unpickle(buffer: Any) -> SmartModel:
    return smart(keras.Model._unpickle_model(buffer))


def _attach(model: SmartModel, policy: Policy | None) -> Placer:
    """Give a model its placer, past Keras' `__setattr__`, which would track it."""
    placer = Placer(model, policy)
    model.__dict__[_PLACER] = placer
    return placer


def placer_of(model: SmartModel) -> Placer:
    """The placer of a model; made here for one that came by a way around `__init__`."""
    found: Placer | None = vars(model).get(_PLACER)
    return found or _attach(model, None)


def smart(model: keras.Model, *, policy: Policy | None = None) -> SmartModel:
    """Convert a Keras model in place: same object, same weights, same optimizer.

    Args:
        model: Any Keras model.
        policy: What may be done; None for the process's default.

    Returns:
        `model` itself.

    Raises:
        NotAModelError: AP203, for anything but a Keras model.
    """
    if not isinstance(model, keras.Model):
        raise NotAModelError(
            "only a Keras model can be made smart",
            expected="a keras.Model",
            received=repr(type(model)),
            fix="build a keras.Model around it",
        )
    if not isinstance(model, SmartModel):
        model.__class__ = _smart_class(type(model))
        _attach(model, policy).forget_functions()
    elif policy is not None:
        placer_of(model).set_policy(policy)
    converted: SmartModel = model
    return converted


def _smart_class(plain: type) -> type:
    if plain not in _SMART:  # a user's subclass: same names, our family behind it
        base = next(b for b in (keras.Sequential, Functional, keras.Model) if issubclass(plain, b))
        names = {
            key: getattr(plain, key)
            for key in ("__module__", "__qualname__", "__init__", "__doc__")
        }
        _SMART[plain] = type(plain.__name__, (plain, _SMART[base]), names)
        if plain in GLOBAL_CUSTOM_NAMES:
            GLOBAL_CUSTOM_NAMES[_SMART[plain]] = GLOBAL_CUSTOM_NAMES[plain]
    return _SMART[plain]


def report(model: keras.Model) -> Report:
    """Explain where the layers of a model run, and why.

    Args:
        model: A `SmartModel` that has a plan.

    Returns:
        A report that shows itself in a notebook and by `print`; `to_html`, `to_json`, `to_dict`.

    Raises:
        NotAModelError: AP203, for anything but a SmartModel.
        ModelNotBuiltError: AP201, before the first batch.
    """
    if not isinstance(model, SmartModel):
        raise NotAModelError(
            "there is no report on this",
            expected="an autoplace.SmartModel, or a model converted by autoplace.smart(model)",
            received=repr(type(model)),
            fix="convert it with autoplace.smart(model) and fit it",
        )
    plan = model.plan
    if plan is None:
        raise ModelNotBuiltError(
            "the model has no plan yet, so there is nothing to report",
            expected="a model that has seen a batch",
            received=f"{model.name!r} before its first batch",
            fix="call model.fit(...) or model.warmup(x, y) first",
        )
    return Report(plan)
