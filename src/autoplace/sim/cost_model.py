"""What an operation costs by a timing profile, in nanoseconds: the native device's model, for operations unrun.

On the GPU a launch and the longer of arithmetic and memory traffic, as in `native/cost.h`; on the CPU the
executor's cost of an operation, and the same. Roofline: Williams, Waterman and Patterson, CACM 52 (2009).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from autoplace.ir import Operation, Tensor
from autoplace.sim.timing_profiles import TimingProfile

HALF = frozenset({"float16", "bfloat16"})
CUDNN_RNN = "CudnnRNN"
BACKPROP_PASSES = 2  # gradients of the inputs and of the weights, each as much as the forward pass


def gpu_ns(operation: Operation, profile: TimingProfile) -> int:
    """Return what all runs of an operation in a step take on the profile's GPU."""
    own = dict(profile.efficiency_of).get(operation.op, profile.efficiency)
    is_half = bool(operation.outputs) and operation.outputs[0].dtype in HALF
    peak = profile.fp16_gflops if is_half else profile.fp32_gflops
    work_ns = max(flops(operation) / (peak * own), _mbytes(operation) * 1e9 / profile.mbytes_per_s)
    return operation.runs * (_launches(operation) * profile.launch_ns + round(work_ns))


def _launches(operation: Operation) -> int:
    """Kernels that an operation launches: a recurrent one is a graph of MPS with a kernel per time step."""
    if operation.op.startswith(CUDNN_RNN) and operation.inputs:
        return 1 + _passes(operation) * operation.inputs[0].shape[0]
    return 1


def _passes(operation: Operation) -> int:
    return BACKPROP_PASSES if "Backprop" in operation.op else 1


def cpu_ns(operation: Operation, profile: TimingProfile) -> int:
    """Return what all runs of an operation in a step take on the profile's CPU."""
    work_ns = max(
        flops(operation) / profile.cpu_matmul_gflops,
        _mbytes(operation) * 1e9 / profile.cpu_mbytes_per_s,
    )
    return operation.runs * (profile.cpu_op_ns + round(work_ns))


def flops(operation: Operation) -> float:
    """Return the floating-point operations of one run: of contractions; 0 for what memory bounds."""
    op, inputs, outputs = operation.op, operation.inputs, operation.outputs
    if not outputs or len(inputs) < 2:
        return 0.0
    if op in ("MatMul", "_FusedMatMul") or op.startswith(("BatchMatMul", "_FusedBatchMatMul")):
        return _matmul(inputs[0], inputs[1], outputs[0])
    if op.startswith(CUDNN_RNN) and len(inputs) > 3:
        return _recurrent(operation)
    if "Conv2D" not in op and "Conv3D" not in op and "Conv2d" not in op:
        return 0.0
    is_depthwise = op.startswith("Depthwise")
    if "BackpropInput" in op:  # input sizes, filter, gradient of the output
        return _convolution(inputs[2], inputs[1], is_depthwise) if len(inputs) > 2 else 0.0
    if "BackpropFilter" in op:  # input, filter sizes, gradient of the output
        return _convolution(inputs[2], outputs[0], is_depthwise) if len(inputs) > 2 else 0.0
    return _convolution(outputs[0], inputs[1], is_depthwise)


def _matmul(left: Tensor, right: Tensor, out: Tensor) -> float:
    # (m·k)(k·n)(m·n) is the square of m·k·n, whichever operand is transposed.
    batch = max(1, math.prod(out.shape[:-2]))
    sizes = [tensor.elements / batch for tensor in (left, right, out)]
    return 2 * batch * math.sqrt(math.prod(sizes))


def _convolution(out: Tensor, kernel: Tensor, is_depthwise: bool) -> float:
    # The filter without its last dimension (HWIO); of a depthwise one (HWIM) without the channels too.
    per_output = math.prod(kernel.shape[: -2 if is_depthwise else -1])
    return 2.0 * out.elements * per_output


def _recurrent(operation: Operation) -> float:
    """Of an RNN in one operation: input, states and packed weights; each weight works once per step and sequence."""
    sequence = operation.inputs[0]
    weights = operation.inputs[3]
    steps = math.prod(sequence.shape[:2])
    return 2.0 * _passes(operation) * steps * weights.elements


def _mbytes(operation: Operation) -> float:
    tensors: Sequence[Tensor] = (*operation.inputs, *operation.outputs)
    return sum(tensor.size_bytes for tensor in tensors) / 1e6
