// A kernel of the simulated device: runs the CPU kernel of its operation, takes the modelled time, shows the faults.
#pragma once

#include <cmath>
#include <cstdio>
#include <future>
#include <limits>
#include <unordered_map>

#include "absl/strings/match.h"
#include "settings.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/errors.h"

namespace autoplace {
namespace tf = tensorflow;

inline double Elements(const tf::Tensor& tensor, int first, int last) {
  double count = 1;
  for (int i = first; i < last; ++i) count *= static_cast<double>(tensor.dim_size(i));
  return count;
}

// Floating-point operations of contractions, 0 for all else (those are bound by bandwidth).
inline double Flops(const std::string& op, tf::OpKernelContext* ctx) {
  if (op == "MatMul" || op == "_FusedMatMul" || op == "BatchMatMul" || absl::StartsWith(op, "BatchMatMulV")) {
    const tf::Tensor &a = ctx->input(0), &b = ctx->input(1), &out = *ctx->mutable_output(0);
    const double batch = std::max(1.0, Elements(out, 0, std::max(0, out.dims() - 2)));
    // (m·k)(k·n)(m·n) is the square of m·k·n.
    return 2 * std::sqrt(Elements(a, 0, a.dims()) / batch * (Elements(b, 0, b.dims()) / batch) *
                         (Elements(out, 0, out.dims()) / batch)) * batch;
  }
  const int dims = absl::StartsWith(op, "Depthwise") ? 2 : 3;  // HWIO filters, NHWC
  if (op == "Conv2D" || op == "_FusedConv2D" || op == "DepthwiseConv2dNative") {
    const tf::Tensor& out = *ctx->mutable_output(0);
    return 2.0 * Elements(out, 0, out.dims()) * Elements(ctx->input(1), 0, dims);
  }
  if (absl::EndsWith(op, "BackpropInput") && ctx->num_inputs() == 3)
    return 2.0 * Elements(ctx->input(2), 0, ctx->input(2).dims()) * Elements(ctx->input(1), 0, dims);
  if (absl::EndsWith(op, "BackpropFilter") && ctx->num_inputs() == 3)
    return 2.0 * Elements(ctx->input(2), 0, ctx->input(2).dims()) * Elements(*ctx->mutable_output(0), 0, dims);
  return 0;
}

class DelegateOp : public tf::OpKernel {
 public:
  explicit DelegateOp(tf::OpKernelConstruction* ctx) : OpKernel(ctx) {
    tf::NodeDef node = def();
    if (node.op() == "_FusedBatchNormEx") node = WithoutActivation(ctx, node);
    std::shared_ptr<const tf::NodeProperties> props;
    OP_REQUIRES_OK(ctx, tf::NodeProperties::CreateFromNodeDef(node, tf::OpRegistry::Global(), &props));
    OpKernel* kernel = nullptr;
    OP_REQUIRES_OK(ctx, tf::CreateOpKernel(tf::DEVICE_CPU, ctx->device(),
                                           ctx->device()->GetAllocator(tf::AllocatorAttributes()),
                                           ctx->function_library(), props, ctx->graph_def_version(), &kernel));
    cpu_.reset(kernel);
    replayable_ = !props->op_def->is_stateful() && num_outputs() > 0;
    for (int i = 0; i < num_inputs(); ++i) replayable_ &= tf::DataTypeCanUseMemcpy(input_type(i));
    for (int i = 0; i < num_outputs(); ++i)
      replayable_ &= tf::DataTypeCanUseMemcpy(output_type(i)) && output_memory_types()[i] == tf::DEVICE_MEMORY;
  }

  void Compute(tf::OpKernelContext* ctx) override {
    const auto settings = GetSettings();
    const int64_t run = runs_++, start = NowNs();
    ++g_launches;
    for (const Fault& fault : settings->faults)
      if (Applies(fault, run) && !Before(fault, ctx)) return;

    const bool replay = settings->replay > 0 && replayable_;
    const std::string key = replay ? Key(ctx) : "";
    const Remembered known = replay ? Find(key, settings->generation) : Remembered();
    if (!known.outputs.empty()) {
      for (int i = 0; i < num_outputs(); ++i) ctx->set_output(i, known.outputs[i]);
      Occupy(start, known.seconds);
    } else {
      RunOnCpu(ctx);
      if (!ctx->status().ok()) return;
      const double seconds = Duration(*settings, ctx);
      if (replay && known.runs > settings->replay) Remember(ctx, key, seconds, start);
      Occupy(start, seconds);
    }
    for (const Fault& fault : settings->faults)
      if (Applies(fault, run)) After(fault, ctx);
  }

 private:
  struct Remembered {
    int64_t runs = 0;
    double seconds = 0;
    std::vector<tf::Tensor> outputs;  // empty: to be computed
  };

  // The CPU build has no kernel for _FusedBatchNormEx: run FusedBatchNormV3, then the side input and Relu here.
  tf::NodeDef WithoutActivation(tf::OpKernelConstruction* ctx, const tf::NodeDef& fused) {
    std::string activation;
    ctx->GetAttr("activation_mode", &activation).IgnoreError();
    relu_ = activation == "Relu";
    side_input_ = num_inputs() > 5;
    tf::NodeDef node;
    node.set_name(fused.name());
    node.set_op("FusedBatchNormV3");
    for (int i = 0; i < 5; ++i) node.add_input(fused.input_size() > i ? fused.input(i) : "");
    for (const char* attr : {"T", "U", "epsilon", "exponential_avg_factor", "data_format", "is_training"})
      if (fused.attr().count(attr)) (*node.mutable_attr())[attr] = fused.attr().at(attr);
    return node;
  }

  void RunOnCpu(tf::OpKernelContext* ctx) {
    if (tf::AsyncOpKernel* async = cpu_->AsAsync()) {
      std::promise<void> done;
      async->ComputeAsync(ctx, [&done] { done.set_value(); });
      done.get_future().wait();
    } else {
      cpu_->Compute(ctx);
    }
    if (!ctx->status().ok() || !(relu_ || side_input_)) return;
    auto out = ctx->mutable_output(0)->flat<float>();
    if (side_input_) out += ctx->input(5).flat<float>();
    if (relu_) out = out.cwiseMax(0.f);
  }

  // The shapes of all inputs, and the values of those in host memory: shapes, axes and sizes decide what the output
  // looks like (Fill of another size was once answered with a remembered tensor).
  std::string Key(tf::OpKernelContext* ctx) const {
    std::string key;
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const tf::Tensor& input = ctx->input(i);
      key += input.shape().DebugString();
      if (input_memory_types()[i] == tf::HOST_MEMORY) {
        const auto bytes = input.tensor_data();
        key.append(bytes.data(), bytes.size());
      }
    }
    return key;
  }

  // A copy, whose tensors share their buffers: kernels may run in parallel.
  Remembered Find(const std::string& key, int64_t generation) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (generation != generation_) {
      remembered_.clear();
      generation_ = generation;
    }
    Remembered& found = remembered_[key];
    ++found.runs;
    return found;
  }

  double Duration(const Settings& settings, tf::OpKernelContext* ctx) const {
    double bytes = 0;
    for (int i = 0; i < ctx->num_inputs(); ++i)
      if (!tf::IsRefType(ctx->input_dtype(i))) bytes += static_cast<double>(ctx->input(i).TotalBytes());
    for (int i = 0; i < ctx->num_outputs(); ++i)
      if (const tf::Tensor* out = ctx->mutable_output(i)) bytes += static_cast<double>(out->TotalBytes());
    const double compute = settings.flops > 0 ? Flops(type_string(), ctx) / settings.flops : 0;
    const double memory = settings.bytes_per_s > 0 ? bytes / settings.bytes_per_s : 0;
    return settings.launch_s + std::max(compute, memory);
  }

  // Only where the CPU took longer than the device would. Never small outputs: they may steer a loop.
  void Remember(tf::OpKernelContext* ctx, const std::string& key, double seconds, int64_t start) {
    int64_t bytes = 0;
    std::vector<tf::Tensor> outputs;
    for (int i = 0; i < num_outputs(); ++i) {
      if (!ctx->mutable_output(i)) return;
      outputs.push_back(*ctx->mutable_output(i));
      bytes += static_cast<int64_t>(outputs.back().TotalBytes());
    }
    if (bytes < 4096 || static_cast<double>(NowNs() - start) < seconds * 1e9) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    Remembered& found = remembered_[key];
    found.seconds = seconds;
    found.outputs = std::move(outputs);
  }

  bool Applies(const Fault& fault, int64_t run) const {
    return (fault.op == type_string() || fault.op == "*") && run >= fault.run;
  }

  // Faults that prevent the kernel from running return false.
  static bool Before(const Fault& fault, tf::OpKernelContext* ctx) {
    if (fault.kind == "abort") abort();
    if (fault.kind == "hang") std::this_thread::sleep_for(std::chrono::duration<double>(fault.argument));
    if (fault.kind != "exhausted") return true;
    ctx->SetStatus(absl::ResourceExhaustedError("OOM when allocating tensor on the simulated device"));
    return false;
  }

  // Faults in the outputs. An output may share its buffer with an input, so it is replaced, not overwritten.
  void After(const Fault& fault, tf::OpKernelContext* ctx) {
    if (fault.kind == "command_buffer")
      fprintf(stderr, "Error: command buffer exited with error status.\n\tThe Metal Performance Shaders operations "
                      "encoded on it may not have completed.\n");
    for (int i = 0; i < num_outputs(); ++i) {
      tf::Tensor* out = ctx->mutable_output(i);
      if (!out || out->dtype() != tf::DT_FLOAT) continue;
      tf::Tensor bad(out->dtype(), out->shape());
      if (fault.kind == "nan") {
        bad.flat<float>().setConstant(std::numeric_limits<float>::quiet_NaN());
      } else if (fault.kind == "command_buffer") {
        bad.flat<float>().setZero();
      } else if (fault.kind == "bad_batch" && out->dims() > 0 && out->dim_size(0) % 8 != 0) {
        bad.flat<float>() = out->flat<float>() + 0.1f;
      } else {
        continue;
      }
      *out = bad;
    }
  }

  std::unique_ptr<OpKernel> cpu_;
  bool replayable_ = false, relu_ = false, side_input_ = false;
  std::atomic<int64_t> runs_{0};
  std::mutex mutex_;
  int64_t generation_ = 0;
  std::unordered_map<std::string, Remembered> remembered_;
};

inline tf::OpKernel* CreateDelegate(tf::OpKernelConstruction* ctx) { return new DelegateOp(ctx); }

// Registers the kernel of one line of the table: "Op|attribute=dtype;...|host_memory_argument,...".
//
// Priority 1 wins over the kernels that the CPU build itself registers for DEVICE_GPU (at equal priority TensorFlow
// raises "Multiple OpKernel registrations match").
inline void RegisterKernel(const std::string& line) {
  std::vector<std::string> fields = absl::StrSplit(line, '|');
  fields.resize(3);
  tf::KernelDefBuilder builder(fields[0].c_str());
  builder.Device(tf::DEVICE_GPU).Priority(1);
  for (absl::string_view constraint : absl::StrSplit(fields[1], ';', absl::SkipEmpty())) {
    const std::vector<std::string> attr = absl::StrSplit(constraint, '=');
    tf::DataType dtype;
    if (attr.size() != 2 || !tf::DataTypeFromString(attr[1], &dtype)) {
      fprintf(stderr, "autoplace.sim: kernel table: not understood: %s\n", line.c_str());
      return;
    }
    builder.TypeConstraint(attr[0].c_str(), dtype);
  }
  for (const std::string& arg : std::vector<std::string>(absl::StrSplit(fields[2], ',', absl::SkipEmpty())))
    builder.HostMemory(arg.c_str());
  tf::kernel_factory::OpKernelRegistrar(builder.Build(), "DelegateOp", CreateDelegate);
}

}  // namespace autoplace
