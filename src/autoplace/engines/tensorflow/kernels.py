"""Looks up whether the accelerator has a kernel for what a unit does.

TensorFlow takes the device's own kernel, else one registered for `DEFAULT`, else, under soft placement, it
moves the operation to the CPU in silence. On a Mac that means a copy each way per step, or per time step of a
loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import tensorflow as tf

from autoplace.engines.tensorflow import seams

ACCELERATOR_KERNELS = ("GPU", "DEFAULT")
CUDNN_RNN = "CudnnRNNV3"


def has_cudnn_rnn() -> bool:
    """Whether the accelerator has the operation that Keras makes of LSTM and GRU when a GPU is listed."""
    return any(device in ACCELERATOR_KERNELS for device, _ in seams.kernels_of(CUDNN_RNN))


def missing(operations: Iterable[tf.Operation]) -> list[str]:
    """Return the types of operations on data for which the accelerator has no kernel, sorted.

    Operations that only reckon with shapes, seeds and counters are left out: they run on the CPU on a Mac too,
    for want of integer kernels, and move a few bytes.
    """
    return sorted({op.type for op in operations if is_on_data(op) and not _has_kernel(op)})


def is_on_data(op: tf.Operation) -> bool:
    """Whether an operation handles tensors of floats, or lists of them, with more than one element."""
    return any(
        (t.dtype.is_floating and t.shape.num_elements() != 1) or t.dtype == tf.variant
        for t in (*op.inputs, *op.outputs)
    )


def _has_kernel(op: tf.Operation) -> bool:
    if not seams.is_known_op(op.type) or _calls_a_function(op):
        return True  # its operations are looked up themselves
    return any(
        device in ACCELERATOR_KERNELS
        and all(_allows(op, name, allowed) for name, allowed in limits)
        for device, limits in seams.kernels_of(op.type)
    )


def _calls_a_function(op: tf.Operation) -> bool:
    """Whether it runs other functions, as While, If and PartitionedCall do."""
    return any(value.HasField("func") for value in op.node_def.attr.values())


def _allows(op: tf.Operation, attribute: str, allowed: frozenset[int]) -> bool:
    value = op.node_def.attr[attribute]
    if value.HasField("list"):
        return all(number in allowed for number in value.list.type)
    return value.type in allowed


def called_functions(op: tf.Operation) -> list[str]:
    """Names of the functions that an operation runs: bodies of loops, branches, calls."""
    values = op.node_def.attr.values()
    names = [value.func.name for value in values if value.HasField("func")]
    return [*names, *(function.name for value in values for function in value.list.func)]


def operations_of(graph: tf.Graph) -> Iterator[tf.Operation]:
    """Yield the operations of a traced function and of the functions that it calls."""
    seen: set[str] = set()
    pending = [graph]
    while pending:
        current = pending.pop()
        for op in current.get_operations():
            yield op
            for name in called_functions(op):
                if name not in seen:
                    seen.add(name)
                    nested = seams.function_graph(current, name)
                    if nested is not None:
                        pending.append(nested)
