"""Everything of Keras and TensorFlow that is not public API and that autoplace relies on.

Nothing is patched on a class or a module: only attributes of single instances are set, and each is undone by
leaving the context that set it. The two exceptions make Keras see another machine: `arm_mac_for_keras`, for a
process with the simulated device, and `gpu_listed_for_recurrent_layers`, for a trace that is never run.
`tests/contract/` has a test for every function here, which names the versions when a seam has moved.

| seam | why |
| --- | --- |
| `layer.__dict__["call"]`, `["quantized_call"]` | the only hook that also sees layers entered by `.call` |
| `model.__dict__["train_step"]` and siblings | Keras looks them up when it traces |
| `variable._value` | a Keras variable stays itself while its tensor lives on another device |
| `optimizer._trainable_variables_indices`, `_var_key` | keyed by the tf.Variable, so stale after a swap |
| `optimizer.add_variable_from_reference` | says which weight a slot belongs to |
| `model._compile_metrics`, `_compile_loss`, `_symbolic_build` | build state before the first step |
| `context.enable_run_metadata` | read where operations were executed |
| `model._jit_compile` | XLA off inside, the user's setting kept |
| `TFEpochIterator` | the first batch of arrays, as `fit` makes it |
| `graph.device(function)`, `_add_scope_exit_callback`, `op._set_device` | place what a step creates |
| `smart_cond.smart_constant_value` | how often a traced loop will run |
| `context._rng`, `global_state` | leave random numbers and names as they were |
| `keras.src.trainers.trainer.platform` | by it Keras leaves XLA out on a Mac; the simulated Mac has to look like one |
| `keras.src.backend.tensorflow.rnn._is_gpu_available` | by it LSTM and GRU become `CudnnRNNV3`; a forecast asks for a machine that is not here |
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import platform
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.backend.tensorflow.trainer import TFEpochIterator
from keras.src.models.functional import Functional
from keras.src.trainers import trainer as keras_trainer
from keras.src.trainers.data_adapters import data_adapter_utils
from tensorflow.python.eager import context as eager_context
from tensorflow.python.framework import func_graph, kernels, op_def_registry, smart_cond

Override = tuple[object, str, Any]


@contextmanager
def overridden(overrides: Sequence[Override]) -> Iterator[None]:
    """Set attributes of instances, and take them away again.

    Keras' own `__setattr__` would track the values, so `__dict__` is written. An attribute that the instance
    already had in its `__dict__` is put back.
    """
    missing = object()
    before: list[tuple[dict[str, Any], str, Any]] = []
    try:
        for instance, name, value in overrides:
            attributes = vars(instance)
            before.append((attributes, name, attributes.get(name, missing)))
            attributes[name] = value
        yield
    finally:
        for attributes, name, value in reversed(before):
            if value is missing:
                attributes.pop(name, None)
            else:
                attributes[name] = value


def wrapped(method: Callable[..., Any], around: Callable[..., Any]) -> Callable[..., Any]:
    """Return `method` run by `around(method, *args, **kwargs)`, with its signature kept for Keras."""

    @functools.wraps(method)
    def run(*args: Any, **kwargs: Any) -> Any:
        return around(method, *args, **kwargs)

    vars(run)[OURS] = True
    return run


OURS = "_autoplace_override"


def unwrapped(instance: object, name: str) -> Callable[..., Any]:
    """Return a method of an instance without an override that `wrapped` made and that is still set."""
    method: Callable[..., Any] = getattr(instance, name)
    while getattr(method, OURS, False):
        method = method.__wrapped__  # type: ignore[attr-defined]  # functools.wraps sets it
    return method


def call_methods(layer: keras.layers.Layer) -> tuple[str, ...]:
    """Names of the methods through which a layer computes; quantized layers have a second one."""
    return ("call", "quantized_call") if hasattr(layer, "quantized_call") else ("call",)


def all_layers(model: keras.Model) -> list[keras.layers.Layer]:
    """Every layer below `model` that Keras tracks, and `model` itself first."""
    layers: list[keras.layers.Layer] = model._flatten_layers(include_self=True)
    return layers


def tensors_held_by(layer: keras.layers.Layer) -> list[tuple[str, tf.Tensor]]:
    """Attributes of a layer that are eager tensors, by name; their values are constants of a trace."""
    return [
        (name, value)
        for name, value in vars(layer).items()
        if isinstance(value, tf.Tensor) and not tf.is_symbolic_tensor(value)
    ]


def sublayers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Layers directly inside a layer."""
    inside: list[keras.layers.Layer] = layer._layers
    return inside


def kind_of(model: keras.Model) -> str:
    """`sequential`, `functional` or `subclassed`."""
    if isinstance(model, keras.Sequential):
        return "sequential"
    return "functional" if isinstance(model, Functional) else "subclassed"


def example_inputs(model: keras.Model, batch: int = 1, open_size: int = 1) -> Any:
    """Zeros of the shapes and dtypes that a functional model takes, with sizes for its open dimensions."""

    def example(spec: Any) -> tf.Tensor:
        first, *rest = [*spec.shape, None][: max(1, len(spec.shape))]
        shape = [batch if first is None else first, *(open_size if d is None else d for d in rest)]
        return tf.fill(shape, "") if spec.dtype == "string" else tf.zeros(shape, spec.dtype)

    inputs = model.inputs
    single = inputs[0] if len(inputs) == 1 else inputs  # of a Sequential, which has one
    return keras.tree.map_structure(example, getattr(model, "_inputs_struct", single))


def recurrent_layers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """`layer` and those below it that choose between cuDNN and a loop."""
    return [part for part in layer._flatten_layers() if hasattr(part, "use_cudnn")]


class _ArmMac:
    """Python's `platform` as it is on a Mac with Apple silicon, as far as Keras asks."""

    def system(self) -> str:
        return "Darwin"

    def processor(self) -> str:
        return "arm"

    def __getattr__(self, name: str) -> Any:
        return getattr(platform, name)


@contextmanager
def arm_mac_for_keras() -> Iterator[None]:
    """Let Keras' trainer choose `jit_compile` as on a Mac with Apple silicon: not with a GPU listed."""
    with overridden([(keras_trainer, "platform", _ArmMac())]):
        yield


@contextmanager
def gpu_listed_for_recurrent_layers() -> Iterator[None]:
    """Let Keras make the operation of cuDNN of LSTM and GRU in a trace, as where a GPU is listed."""
    # By its name: as an attribute of the package, `rnn` is the function.
    module = importlib.import_module("keras.src.backend.tensorflow.rnn")
    with overridden([(module, "_is_gpu_available", lambda: True)]):
        yield


# ------------------------------------------------------------------------------------- variables


def tensor_of(variable: keras.Variable) -> tf.Variable:
    """The tf.Variable behind a Keras variable; `.value` would cast under an autocast scope."""
    return variable._value


def set_tensor(variable: keras.Variable, tensor: tf.Variable) -> None:
    """Put another tf.Variable behind a Keras variable."""
    variable._value = tensor


def optimizers_of(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """The compiled optimizer, and the inner one of a loss-scaling wrapper."""
    found: list[keras.optimizers.Optimizer] = []
    optimizer = getattr(model, "optimizer", None)
    while optimizer is not None and optimizer not in found:
        found.append(optimizer)
        optimizer = getattr(optimizer, "inner_optimizer", None)
    return found


def reindex(optimizer: keras.optimizers.Optimizer) -> None:
    """Rebuild the index by which an optimizer finds its slots.

    Trap (Keras 3.5 to 3.15): it is keyed by the identity of the tf.Variable, so that after a swap a new trace
    fails with "Unknown variable".
    """
    if getattr(optimizer, "_trainable_variables_indices", None):
        optimizer._trainable_variables_indices = {
            optimizer._var_key(v): i for i, v in enumerate(optimizer._trainable_variables)
        }


def slot_references(
    optimizer: keras.optimizers.Optimizer, variables: Sequence[keras.Variable]
) -> dict[int, keras.Variable]:
    """Return {id(slot): the weight that it belongs to}; builds the optimizer if that is still to be done.

    A built optimizer does not know it any more: a twin made from its config is built instead, which makes the
    same variables in the same order.
    """
    made: list[tuple[Any, Any]] = []

    def record(add: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        slot = add(*args, **kwargs)
        made.append((slot, args[0] if args else kwargs["reference_variable"]))
        return slot

    source = optimizer
    if optimizer.built:
        source = type(optimizer).from_config(optimizer.get_config())
        variables = optimizer._trainable_variables
    recorder = wrapped(source.add_variable_from_reference, record)
    with overridden([(source, "add_variable_from_reference", recorder)]), tf.device("/CPU:0"):
        source.build(variables)
    position = {id(slot): i for i, slot in enumerate(source.variables)}
    slots = optimizer.variables
    by_id = {id(v): v for v in variables}
    return {
        id(slots[position[id(slot)]]): by_id[id(reference)]
        for slot, reference in made
        if id(slot) in position and id(reference) in by_id
    }


# ------------------------------------------------------------------------------- compiled state


def unpack(data: Any) -> tuple[Any, Any, Any]:
    """Split a batch as Keras does into (x, y, sample_weight)."""
    unpacked: tuple[Any, Any, Any] = data_adapter_utils.unpack_x_y_sample_weight(data)
    return unpacked


def is_model_built(model: keras.Model) -> bool:
    """Whether every layer has its weights."""
    return all(layer.built for layer in all_layers(model))


def build_model(model: keras.Model, data: Any) -> None:
    """Give an unbuilt model its weights, metrics and optimizer, as Keras does under a strategy."""
    model._symbolic_build(data_batch=unpack(data))


def build_compiled_state(model: keras.Model, y: Any, y_pred: Any) -> None:
    """Give compiled losses and metrics their variables; `y` and `y_pred` may be symbolic."""
    for name in ("_compile_metrics", "_compile_loss"):
        compiled = getattr(model, name, None)
        if compiled is not None and not compiled.built:
            with tf.init_scope():
                compiled.build(y, y_pred)


def has_own_step(model: keras.Model, step: str) -> bool:
    """Whether the user wrote `train_step`, `test_step` or `predict_step` themselves."""
    return getattr(type(model), step) is not getattr(keras.Model, step)


def clear_losses(model: keras.Model) -> None:
    """Drop symbolic losses that a trace left behind in `add_loss` lists."""
    model._clear_losses()


@contextmanager
def without_jit(model: keras.Model) -> Iterator[None]:
    """Make step functions without XLA inside; the user's own setting, which is saved in files, stays."""
    before = model._jit_compile
    model._jit_compile = False
    try:
        yield
    finally:
        model._jit_compile = before


STEP_FUNCTIONS = {
    "train_step": ("make_train_function", "train_function"),
    "test_step": ("make_test_function", "test_function"),
    "predict_step": ("make_predict_function", "predict_function"),
}


def new_function(model: keras.Model, step: str) -> Callable[[Any], Any]:
    """Let Keras make a new function for a step; the one that the model has stays."""
    make, name = STEP_FUNCTIONS[step]
    before = getattr(model, name)
    try:
        getattr(model, make)(force=True)
        made: Callable[[Any], Any] = getattr(model, name)
        return made
    finally:
        setattr(model, name, before)


def set_function(model: keras.Model, step: str, function: Callable[[Any], Any] | None) -> None:
    """Make `function` the one that `fit`, `evaluate` or `predict` calls; None lets Keras make it anew."""
    setattr(model, STEP_FUNCTIONS[step][1], function)


def first_batch_of_fit(model: keras.Model, arguments: dict[str, Any]) -> tuple[Any, Any] | None:
    """Return the first batch that `fit` would make of arrays, and the spec of its iterator.

    Args:
        model: The model.
        arguments: Arguments of `fit` by name.

    Returns:
        None where `x` is anything but arrays: an iterator can be read only once, and so can some datasets.
    """
    leaves = keras.tree.flatten(arguments.get("x"))
    if not leaves or not all(isinstance(leaf, (np.ndarray, tf.Tensor)) for leaf in leaves):
        return None
    names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "class_weight")
    iterator = TFEpochIterator(
        **{name: arguments.get(name) for name in names},
        shuffle=False,
        distribute_strategy=model.distribute_strategy,
        steps_per_execution=model.steps_per_execution,
    )
    dataset = iterator._distributed_dataset
    for batch in dataset.take(1).with_options(without_autotune()):
        return batch, dataset.element_spec
    return None


def without_autotune() -> tf.data.Options:
    """Options for datasets of our own.

    Trap (TensorFlow 2.18 to 2.21): dropping an iterator may wait for its autotuning thread, which sleeps
    10 ms·2^k: the wake-up by `CancellationManager::StartCancel` comes before `IsCancelled` is true, so that the
    thread may go to sleep again. Waits of 8 to 22 s were seen after a warmup of 20 s.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return options


def takes_training(model: keras.Model) -> bool:
    """Whether the model's `call` has an argument `training`."""
    return bool(model._call_has_training_arg)


def autocast_dtype() -> str | None:
    """The dtype to which variables are cast where this is called, or None."""
    scope = global_state.get_global_attribute("autocast_scope")
    return None if scope is None else scope.dtype


@contextmanager
def autocast(dtype: str | None) -> Iterator[None]:
    """Cast variables to `dtype` inside, as `Layer.__call__` does around `call`."""
    from keras.src.backend.common.variables import AutocastScope

    with AutocastScope(dtype):
        yield


# ------------------------------------------------------------------------------------ randomness


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave Python's, numpy's and TensorFlow's random state and Keras' name counters as they were."""
    context = eager_context.context()
    tf_random = getattr(context, "_rng", None)
    python_state, numpy_state = random.getstate(), np.random.get_state()
    tf_state = None if tf_random is None else tf_random.getstate()
    names = global_state.get_global_attribute("object_name_uids", default=None)
    names_before = None if names is None else dict(names)
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        if tf_random is not None and tf_state is not None:
            tf_random.setstate(tf_state)
        if names is not None and names_before is not None:
            names.clear()
            names.update(names_before)


def global_seed_variables() -> list[keras.Variable]:
    """The state of Keras' global seed generator, if there is one yet."""
    generator = global_state.get_global_attribute("global_seed_generator")
    return [] if generator is None else [generator.state]


# ----------------------------------------------------------------------------------------- graphs


def new_graph(name: str) -> tf.Graph:
    """A graph in which variables can be used, as inside a tf.function, but that runs its code only once."""
    return func_graph.FuncGraph(name)


def on_exit(graph: tf.Graph, function: Callable[[], None]) -> bool:
    """Run `function` when the tracing of a FuncGraph ends; False for a graph that has no such moment."""
    if getattr(graph, "_scope_exit_callbacks", None) is None:
        return False
    graph._add_scope_exit_callback(function)
    return True


def set_device(operation: tf.Operation, device: str) -> None:
    """Place an operation of a graph that is still being made.

    Trap (TensorFlow 2.18 to 2.21): `CPU:0` traces well and then fails as "Malformed device specification".
    """
    operation._set_device(device)


def variables_used_in(graph: tf.Graph) -> list[tf.Variable]:
    """Variables that operations of a graph read or write.

    `graph.variables` is filled only when a tf.function has traced it.
    """
    return list(graph._watched_variables)


def function_graph(graph: tf.Graph, name: str) -> tf.Graph | None:
    """The graph of a function that an operation of `graph` calls, or None if TensorFlow does not keep it."""
    outer: tf.Graph | None = graph
    while outer is not None:
        with contextlib.suppress(AttributeError, KeyError):
            return getattr(outer._get_function(name), "graph", None)
        outer = getattr(outer, "outer_graph", None)
    return None


def forward_graph(graph: tf.Graph) -> tf.Graph | None:
    """The forward body that a while-loop's or cond's gradient graph belongs to."""
    return getattr(graph, "_forward_graph", None)


def constant_value(tensor: tf.Tensor) -> Any:
    """The value of a symbolic tensor that depends on constants only, as TensorFlow's own folding finds it, or None.

    `tf.get_static_value` knows few operations; the length of Keras' loops is the maximum of a range.
    """
    return smart_cond.smart_constant_value(tensor)


def executed_nodes(run: Callable[[], Any]) -> list[Any]:
    """Run something and return the nodes of the largest set of partition graphs that was executed."""
    context = eager_context.context()
    context.enable_graph_collection()
    context.enable_run_metadata()
    try:
        run()
        metadata = context.export_run_metadata()
    finally:
        context.disable_run_metadata()
        context.disable_graph_collection()
    functions = [
        [node for graph in function.partition_graphs for node in graph.node]
        for function in metadata.function_graphs
    ]
    return max(functions, key=len, default=[])


# ---------------------------------------------------------------------------------------- kernels


@functools.cache
def kernels_of(op_type: str) -> tuple[tuple[str, tuple[tuple[str, frozenset[int]], ...]], ...]:
    """Registered kernels of an operation: (device type, ((attribute, allowed dtypes), ...)) each."""
    return tuple(
        (
            kernel.device_type,
            tuple(
                (c.name, frozenset(c.allowed_values.list.type))
                for c in kernel.constraint
                if c.allowed_values.list.type
            ),
        )
        for kernel in kernels.get_registered_kernels_for_op(op_type).kernel
    )


def is_known_op(op_type: str) -> bool:
    """Whether this TensorFlow defines the operation at all (a function call is none)."""
    return op_def_registry.get(op_type) is not None
