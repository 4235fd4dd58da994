// Outputs that kernels remember, so that the device can be faster than the CPU that it runs on.
//
// Everything remembered belongs to an epoch. When replay ends, or the times change, the epoch is raised and all memory
// is freed: nothing of one block is ever seen in a later one.
#pragma once

#include <stdint.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "settings.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace autoplace {
namespace tf = tensorflow;

constexpr int64_t kSmallestReplay = 4096;  // bytes: smaller outputs may steer a loop
constexpr size_t kMostKeys = 64;           // per kernel; a seed that changes with every step would fill the memory

inline std::atomic<int64_t> g_replay_epoch{0}, g_remembered_bytes{0};

// What one kernel remembers.
class Replay {
 public:
  struct Answer {
    bool is_due = false;  // has run often enough to be remembered
    int64_t duration_ns = 0;
    std::vector<tf::Tensor> outputs;  // empty: to be computed
  };

  Replay();
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  // Counts a run, and returns what is remembered: a copy that shares the buffers, as kernels may run in parallel.
  Answer Find(const std::string& key, int64_t epoch, int64_t after) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (epoch != g_replay_epoch.load()) return {};
    if (entries_.size() >= kMostKeys && !entries_.count(key)) return {};
    Entry& entry = entries_[key];
    ++entry.runs;
    return {entry.runs > after, entry.duration_ns, entry.outputs};
  }

  void Remember(const std::string& key, int64_t epoch, int64_t limit, int64_t duration_ns, tf::OpKernelContext* ctx) {
    std::vector<tf::Tensor> outputs;
    int64_t bytes = 0;
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      const tf::Tensor* out = ctx->mutable_output(i);
      if (!out) return;
      outputs.push_back(*out);
      bytes += static_cast<int64_t>(out->TotalBytes());
    }
    if (bytes < kSmallestReplay) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    if (epoch != g_replay_epoch.load() || g_remembered_bytes.load() + bytes > limit) return;
    Entry& entry = entries_[key];
    if (!entry.outputs.empty()) return;
    entry.duration_ns = duration_ns;
    entry.outputs = std::move(outputs);
    bytes_ += bytes;
    g_remembered_bytes += bytes;
  }

  void Forget() {
    std::unordered_map<std::string, Entry> dropped;  // freed when the lock is gone
    const std::lock_guard<std::mutex> lock(mutex_);
    dropped.swap(entries_);
    g_remembered_bytes -= bytes_;
    bytes_ = 0;
  }

 private:
  struct Entry {
    int64_t runs = 0, duration_ns = 0;
    std::vector<tf::Tensor> outputs;
  };

  std::mutex mutex_;
  int64_t bytes_ = 0;
  std::unordered_map<std::string, Entry> entries_;
};

struct AllReplays {
  std::mutex mutex;
  std::unordered_set<Replay*> kernels;
};

inline AllReplays& TheReplays() {
  static auto* all = new AllReplays;  // never destroyed: TensorFlow frees kernels while the process ends
  return *all;
}

inline Replay::Replay() {
  const std::lock_guard<std::mutex> lock(TheReplays().mutex);
  TheReplays().kernels.insert(this);
}

inline Replay::~Replay() {
  {
    const std::lock_guard<std::mutex> lock(TheReplays().mutex);
    TheReplays().kernels.erase(this);
  }
  Forget();
}

inline void ForgetAll() {
  ++g_replay_epoch;  // first: whoever remembers from here on is refused
  const std::lock_guard<std::mutex> lock(TheReplays().mutex);
  for (Replay* kernel : TheReplays().kernels) kernel->Forget();
}

// What decides about the shapes of a kernel's outputs: the shapes of its inputs, and the values of those that are
// sizes, axes or indices. Fill of another size must not be answered with a remembered tensor.
inline std::string ReplayKey(tf::OpKernelContext* ctx) {
  std::string key;
  const auto add = [&key](const void* data, size_t size) { key.append(static_cast<const char*>(data), size); };
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    if (!ctx->has_input(i)) continue;
    const tf::Tensor& input = ctx->input(i);
    const int dims = input.dims();
    add(&dims, sizeof(dims));
    for (int d = 0; d < dims; ++d) {
      const int64_t size = input.dim_size(d);
      add(&size, sizeof(size));
    }
    const bool is_index = input.dtype() == tf::DT_INT32 || input.dtype() == tf::DT_INT64;
    if (ctx->input_memory_type(i) == tf::HOST_MEMORY || (is_index && input.TotalBytes() <= 128)) {
      const auto bytes = input.tensor_data();
      add(bytes.data(), bytes.size());
    }
  }
  return key;
}

}  // namespace autoplace
