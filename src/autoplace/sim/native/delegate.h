// A kernel of the simulated device: runs the CPU kernel of its operation, takes the modelled time, shows the faults.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "cost.h"
#include "faults.h"
#include "queue.h"
#include "replay.h"
#include "settings.h"
#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/framework/node_properties.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace autoplace {
namespace tf = tensorflow;

// The CPU kernel that does the work, and what this operation needs besides.
struct Worker {
  std::unique_ptr<tf::OpKernel> cpu;
  bool is_stateful = false;
  bool adds_side_input = false, adds_relu = false;  // of _FusedBatchNormEx

  void Finish(tf::OpKernelContext* ctx) const {
    if (!ctx->status().ok() || !(adds_relu || adds_side_input)) return;
    auto out = ctx->mutable_output(0)->flat<float>();
    if (adds_side_input) out += ctx->input(5).flat<float>();
    if (adds_relu) out = out.cwiseMax(0.f);
  }
};

// The CPU build has no kernel for _FusedBatchNormEx: FusedBatchNormV3 runs, and the worker adds side input and Relu.
inline tf::NodeDef WithoutActivation(const tf::NodeDef& fused, int num_inputs, Worker* worker) {
  const auto mode = fused.attr().find("activation_mode");
  worker->adds_relu = mode != fused.attr().end() && mode->second.s() == "Relu";
  worker->adds_side_input = num_inputs > 5;
  tf::NodeDef node;
  node.set_name(fused.name());
  node.set_op("FusedBatchNormV3");
  for (int i = 0; i < 5; ++i) node.add_input(fused.input_size() > i ? fused.input(i) : "");
  for (const char* attr : {"T", "U", "epsilon", "exponential_avg_factor", "data_format", "is_training"})
    if (fused.attr().count(attr)) (*node.mutable_attr())[attr] = fused.attr().at(attr);
  return node;
}

inline absl::Status MakeWorker(tf::OpKernelConstruction* ctx, Worker* worker) {
  tf::NodeDef node = ctx->def();
  if (node.op() == "_FusedBatchNormEx") node = WithoutActivation(node, ctx->num_inputs(), worker);
  std::shared_ptr<const tf::NodeProperties> properties;
  absl::Status status = tf::NodeProperties::CreateFromNodeDef(node, tf::OpRegistry::Global(), &properties);
  if (!status.ok()) return status;
  tf::OpKernel* kernel = nullptr;
  status = tf::CreateOpKernel(tf::DEVICE_CPU, ctx->device(), ctx->device()->GetAllocator(tf::AllocatorAttributes()),
                              ctx->function_library(), properties, ctx->graph_def_version(), &kernel);
  worker->cpu.reset(kernel);
  worker->is_stateful = properties->op_def->is_stateful();
  return status;
}

// What is the same for synchronous and asynchronous kernels: before the worker, and after it.
class Delegate {
 public:
  struct Run {
    const Settings* settings = nullptr;
    int64_t start_ns = 0, fault_run = 0, epoch = 0;
    std::string key;  // of replay, empty without
    Replay::Answer answer;
  };

  Delegate(const tf::OpKernel* kernel, Worker worker)
      : worker(std::move(worker)), kernel_(*kernel), contraction_(ContractionOf(kernel->type_string())) {
    can_replay_ = !this->worker.is_stateful && kernel->num_outputs() > 0;
    for (int i = 0; i < kernel->num_inputs(); ++i) can_replay_ &= tf::DataTypeCanUseMemcpy(kernel->input_type(i));
    for (int i = 0; i < kernel->num_outputs(); ++i)
      can_replay_ &= tf::DataTypeCanUseMemcpy(kernel->output_type(i)) &&
                     kernel->output_memory_types()[i] == tf::DEVICE_MEMORY;
  }

  // False where a fault has ended the run.
  bool Begin(tf::OpKernelContext* ctx, Run* run) {
    ++g_launches;
    run->settings = &GetSettings();
    run->start_ns = NowNs();
    if (!run->settings->faults.empty()) {
      run->fault_run = fault_runs_.Next();
      for (const Fault& fault : run->settings->faults)
        if (Applies(fault, kernel_, run->fault_run) && !FaultBefore(fault, ctx)) return false;
    }
    if (run->settings->replay_after > 0 && can_replay_) {
      run->epoch = g_replay_epoch.load();
      run->key = ReplayKey(ctx);
      run->answer = replay_.Find(run->key, run->epoch, run->settings->replay_after);
    }
    return true;
  }

  static bool IsAnswered(const Run& run) { return !run.answer.outputs.empty(); }

  // When the outputs are there, or are remembered: takes the time that is left, and shows the faults.
  void End(tf::OpKernelContext* ctx, const Run& run) {
    if (IsAnswered(run)) {
      for (size_t i = 0; i < run.answer.outputs.size(); ++i) ctx->set_output(static_cast<int>(i), run.answer.outputs[i]);
      Occupy(run.start_ns, run.answer.duration_ns);
    } else {
      worker.Finish(ctx);
      if (!ctx->status().ok()) return;
      const int64_t duration_ns = Duration(*run.settings, contraction_, kernel_.type_string(), ctx);
      // Only where the CPU took longer than the device would.
      if (run.answer.is_due && NowNs() - run.start_ns > duration_ns)
        replay_.Remember(run.key, run.epoch, run.settings->replay_bytes, duration_ns, ctx);
      Occupy(run.start_ns, duration_ns);
    }
    for (const Fault& fault : run.settings->faults)
      if (Applies(fault, kernel_, run.fault_run)) FaultAfter(fault, kernel_, ctx);
  }

  const Worker worker;

 private:
  const tf::OpKernel& kernel_;
  const Contraction contraction_;
  bool can_replay_ = false;
  FaultRuns fault_runs_;
  Replay replay_;
};

class DelegateOp : public tf::OpKernel {
 public:
  DelegateOp(tf::OpKernelConstruction* ctx, Worker worker) : OpKernel(ctx), delegate_(this, std::move(worker)) {}

  void Compute(tf::OpKernelContext* ctx) override {
    Delegate::Run run;
    if (!delegate_.Begin(ctx, &run)) return;
    if (!Delegate::IsAnswered(run)) delegate_.worker.cpu->Compute(ctx);
    delegate_.End(ctx, run);
  }

 private:
  Delegate delegate_;
};

// Where the CPU kernel is asynchronous, so is this one: a thread of the pool that waited for others could starve them.
class AsyncDelegateOp : public tf::AsyncOpKernel {
 public:
  AsyncDelegateOp(tf::OpKernelConstruction* ctx, Worker worker)
      : AsyncOpKernel(ctx), delegate_(this, std::move(worker)) {}

  void ComputeAsync(tf::OpKernelContext* ctx, DoneCallback done) override {
    auto run = std::make_shared<Delegate::Run>();
    if (!delegate_.Begin(ctx, run.get())) return done();
    auto end = [this, ctx, run, done = std::move(done)] {
      delegate_.End(ctx, *run);
      done();
    };
    if (Delegate::IsAnswered(*run)) return end();
    delegate_.worker.cpu->AsAsync()->ComputeAsync(ctx, end);
  }

 private:
  Delegate delegate_;
};

inline tf::OpKernel* CreateDelegate(tf::OpKernelConstruction* ctx) {
  Worker worker;
  const absl::Status status = MakeWorker(ctx, &worker);
  if (!status.ok()) {
    ctx->SetStatus(status);
    return nullptr;  // TensorFlow looks at the status
  }
  if (worker.cpu->AsAsync()) return new AsyncDelegateOp(ctx, std::move(worker));
  return new DelegateOp(ctx, std::move(worker));
}

// Registers the kernel of one line of the table: "Op|attribute=dtype;...|host_memory_argument,...". False where the line
// is not understood.
//
// Priority 1 wins over the kernels that the CPU build itself registers for DEVICE_GPU; at equal priority TensorFlow
// raises "Multiple OpKernel registrations match".
inline bool RegisterKernel(const std::string& line) {
  const std::vector<std::string> fields = absl::StrSplit(line, '|');
  if (fields.size() != 3) return false;
  tf::KernelDefBuilder builder(fields[0].c_str());
  builder.Device(tf::DEVICE_GPU).Priority(1);
  for (absl::string_view constraint : absl::StrSplit(fields[1], ';', absl::SkipEmpty())) {
    const std::vector<std::string> attr = absl::StrSplit(constraint, '=');
    tf::DataType dtype;
    if (attr.size() != 2 || !tf::DataTypeFromString(attr[1], &dtype)) return false;
    builder.TypeConstraint(attr[0].c_str(), dtype);
  }
  for (const std::string& argument : std::vector<std::string>(absl::StrSplit(fields[2], ',', absl::SkipEmpty())))
    builder.HostMemory(argument.c_str());
  tf::kernel_factory::OpKernelRegistrar(builder.Build(), "DelegateOp", CreateDelegate);
  return true;
}

}  // namespace autoplace
