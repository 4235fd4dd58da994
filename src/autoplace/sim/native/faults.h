// What goes wrong in a kernel when a fault is switched on. The kinds are described in fault_specs.py.
#pragma once

#include <stdlib.h>
#include <string.h>

#include <chrono>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "settings.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_util.h"

namespace autoplace {
namespace tf = tensorflow;

// Runs of one kernel since the faults were set.
class FaultRuns {
 public:
  int64_t Next() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const int64_t epoch = g_faults_epoch.load();
    if (epoch != epoch_) runs_ = 0;
    epoch_ = epoch;
    return runs_++;
  }

 private:
  std::mutex mutex_;
  int64_t epoch_ = -1, runs_ = 0;
};

// Whether a kernel belongs to the backward pass: TensorFlow names its nodes "gradient_tape/..." and "gradients/...".
inline bool IsBackward(const tf::OpKernel& kernel) {
  const std::string& op = kernel.type_string();
  return absl::StrContains(op, "Grad") || absl::StrContains(op, "Backprop") ||
         absl::StrContains(kernel.name(), "gradient");
}

inline bool Applies(const Fault& fault, const tf::OpKernel& kernel, int64_t run) {
  if (fault.op != kernel.type_string() && fault.op != "*") return false;
  if (fault.kind == "wrong_gradient" && !IsBackward(kernel)) return false;
  const bool has_end = fault.kind != "hang" && fault.argument > 0;
  return run >= fault.first_run && (!has_end || static_cast<double>(run - fault.first_run) < fault.argument);
}

// Faults that show before the kernel runs; false where it must not run.
inline bool FaultBefore(const Fault& fault, tf::OpKernelContext* ctx) {
  if (fault.kind == "abort") abort();
  if (fault.kind == "hang")
    std::this_thread::sleep_for(std::chrono::duration<double>(fault.argument > 0 ? fault.argument : 3600));
  if (fault.kind != "exhausted") return true;
  ctx->SetStatus(absl::ResourceExhaustedError("OOM when allocating tensor on the simulated device"));
  return false;
}

// Writes the bad form of `right` into `bad`; false where this fault leaves it as it is.
template <typename T>
bool Spoil(const std::string& kind, const tf::Tensor& right, tf::Tensor* bad) {
  auto out = bad->flat<T>();
  const auto in = right.flat<T>();
  if (kind == "nan") {
    out.setConstant(static_cast<T>(std::numeric_limits<float>::quiet_NaN()));
  } else if (kind == "command_buffer") {
    out.setZero();
  } else if (kind == "bad_batch" && right.dims() > 0 && right.dim_size(0) % 8 != 0) {
    for (int64_t i = 0; i < in.size(); ++i) out(i) = static_cast<T>(static_cast<float>(in(i)) + 0.1f);
  } else if (kind == "wrong_gradient") {
    for (int64_t i = 0; i < in.size(); ++i) out(i) = i < (in.size() + 1) / 2 ? in(i) : static_cast<T>(0.f);
    if (in.size() == 1) out(0) = static_cast<T>(0.f);
  } else {
    return false;
  }
  return true;
}

// Zeros after the sixteenth along the last dimension, in values and indices alike.
inline void CutTopK(tf::Tensor* out) {
  const int64_t width = out->dims() > 0 ? out->dim_size(out->dims() - 1) : 0;
  if (width <= 16) return;
  tf::Tensor bad = tf::tensor::DeepCopy(*out);
  const int64_t size = tf::DataTypeSize(out->dtype());
  char* data = static_cast<char*>(bad.data());
  for (int64_t row = 0; row < out->NumElements() / width; ++row)
    memset(data + (row * width + 16) * size, 0, static_cast<size_t>((width - 16) * size));
  *out = bad;
}

// The output of the operation's first run at this shape since the faults were set, of any kernel of the process.
inline void Repeat(const tf::OpKernel& kernel, int index, tf::Tensor* out) {
  static std::mutex mutex;
  static auto* first = new std::map<std::string, tf::Tensor>;
  static int64_t epoch = -1;
  const std::lock_guard<std::mutex> lock(mutex);
  if (epoch != g_faults_epoch.load()) first->clear();
  epoch = g_faults_epoch.load();
  const std::string key = absl::StrCat(kernel.type_string(), "|", index, "|", tf::DataTypeString(out->dtype()), "|",
                                       out->shape().DebugString());
  *out = first->emplace(key, tf::tensor::DeepCopy(*out)).first->second;
}

// Faults in the outputs. An output may share its buffer with an input or a variable, and can be set only once: it is
// replaced, never written into.
inline void FaultAfter(const Fault& fault, const tf::OpKernel& kernel, tf::OpKernelContext* ctx) {
  if (fault.kind == "command_buffer")
    fprintf(stderr,
            "Error: command buffer exited with error status.\n"
            "\tThe Metal Performance Shaders operations encoded on it may not have completed.\n");
  for (int i = 0; i < ctx->num_outputs(); ++i) {
    tf::Tensor* out = ctx->mutable_output(i);
    if (!out || !out->IsInitialized()) continue;
    const tf::DataType dtype = out->dtype();
    if (fault.kind == "topk_over_16" && tf::DataTypeCanUseMemcpy(dtype)) CutTopK(out);
    if (fault.kind == "repeated" && tf::DataTypeCanUseMemcpy(dtype)) Repeat(kernel, i, out);
    if (dtype != tf::DT_FLOAT && dtype != tf::DT_HALF && dtype != tf::DT_BFLOAT16) continue;
    tf::Tensor bad(dtype, out->shape());
    const bool is_bad = dtype == tf::DT_FLOAT  ? Spoil<float>(fault.kind, *out, &bad)
                        : dtype == tf::DT_HALF ? Spoil<Eigen::half>(fault.kind, *out, &bad)
                                               : Spoil<tf::bfloat16>(fault.kind, *out, &bad);
    if (is_bad) *out = bad;
  }
}

}  // namespace autoplace
