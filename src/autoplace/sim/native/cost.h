// The modelled duration of a kernel: launch + the longer of arithmetic (contractions only) and memory traffic.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/match.h"
#include "settings.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace autoplace {
namespace tf = tensorflow;

enum class Contraction { kNone, kMatMul, kConv, kConvInputGradient, kConvFilterGradient };

// Looked up once per kernel. Operations that are no contractions are bound by bandwidth.
inline Contraction ContractionOf(const std::string& op) {
  if (op == "MatMul" || op == "_FusedMatMul" || absl::StartsWith(op, "BatchMatMul")) return Contraction::kMatMul;
  if (!absl::StrContains(op, "Conv2D") && !absl::StrContains(op, "Conv3D") && !absl::StrContains(op, "Conv2d"))
    return Contraction::kNone;
  if (absl::StrContains(op, "BackpropInput")) return Contraction::kConvInputGradient;
  if (absl::StrContains(op, "BackpropFilter")) return Contraction::kConvFilterGradient;
  return Contraction::kConv;
}

inline double Elements(const tf::Tensor& tensor, int last) {
  double count = 1;
  for (int i = 0; i < last; ++i) count *= static_cast<double>(tensor.dim_size(i));
  return count;
}

inline double Elements(const tf::Tensor& tensor) { return Elements(tensor, tensor.dims()); }

// Multiply-adds per element of a convolution's output: the filter without its last dimension (HWIO), and for a
// depthwise one (HWIM) without the channels too.
inline double PerOutput(const std::string& op, const tf::Tensor& filter) {
  return Elements(filter, filter.dims() - (absl::StartsWith(op, "Depthwise") ? 2 : 1));
}

inline double Flops(Contraction contraction, const std::string& op, tf::OpKernelContext* ctx) {
  const tf::Tensor* out = ctx->num_outputs() > 0 ? ctx->mutable_output(0) : nullptr;
  if (!out || contraction == Contraction::kNone || ctx->num_inputs() < 2) return 0;
  switch (contraction) {
    case Contraction::kMatMul: {
      // (m·k)(k·n)(m·n) is the square of m·k·n, whichever operand is transposed.
      const double batch = std::max(1.0, Elements(*out, std::max(0, out->dims() - 2)));
      return 2 * batch *
             std::sqrt(Elements(ctx->input(0)) / batch * (Elements(ctx->input(1)) / batch) * (Elements(*out) / batch));
    }
    case Contraction::kConv:
      return 2 * Elements(*out) * PerOutput(op, ctx->input(1));
    case Contraction::kConvInputGradient:  // input sizes, filter, gradient of the output
      return ctx->num_inputs() < 3 ? 0 : 2 * Elements(ctx->input(2)) * PerOutput(op, ctx->input(1));
    case Contraction::kConvFilterGradient:  // input, filter sizes, gradient of the output
      return ctx->num_inputs() < 3 ? 0 : 2 * Elements(ctx->input(2)) * PerOutput(op, *out);
    case Contraction::kNone:
      return 0;
  }
  return 0;
}

inline double Bytes(tf::OpKernelContext* ctx) {
  double bytes = 0;
  for (int i = 0; i < ctx->num_inputs(); ++i)
    if (ctx->has_input(i) && !tf::IsRefType(ctx->input_dtype(i)))
      bytes += static_cast<double>(ctx->input(i).TotalBytes());
  for (int i = 0; i < ctx->num_outputs(); ++i)
    if (const tf::Tensor* out = ctx->mutable_output(i)) bytes += static_cast<double>(out->TotalBytes());
  return bytes;
}

// In nanoseconds. Call it when the outputs are there.
inline int64_t Duration(const Settings& settings, Contraction contraction, const std::string& op,
                        tf::OpKernelContext* ctx) {
  if (!settings.HasTimes()) return 0;
  double arithmetic = 0;
  if (contraction != Contraction::kNone) {
    const tf::DataType dtype = ctx->num_outputs() > 0 ? ctx->expected_output_dtype(0) : tf::DT_FLOAT;
    const double peak = dtype == tf::DT_HALF || dtype == tf::DT_BFLOAT16 ? settings.half_flops : settings.flops;
    const auto own = settings.efficiency_of.find(op);
    const double part = own == settings.efficiency_of.end() ? settings.efficiency : own->second;
    if (peak > 0) arithmetic = Flops(contraction, op, ctx) / (peak * part);
  }
  const double memory = settings.bytes_per_s > 0 ? Bytes(ctx) / settings.bytes_per_s : 0;
  return settings.launch_ns + static_cast<int64_t>(1e9 * std::max(arithmetic, memory));
}

}  // namespace autoplace
