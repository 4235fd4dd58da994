// What the device is told: times, replay, faults. Set from Python as text, read by every kernel.
#pragma once

#include <stdint.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"

namespace autoplace {

// nan             outputs are NaN                         bad_batch   outputs are off by 0.1 if dim 0 is no multiple of 8
// exhausted       the kernel raises ResourceExhausted     hang        the kernel sleeps for `argument` seconds
// command_buffer  a line on stderr, outputs are zero      abort       the process aborts
// dropped_relu    in graphs, Relu(BiasAdd(MatMul)) on this device becomes Identity (takes no operation)
struct Fault {
  std::string kind, op;
  int64_t run = 0;        // the fault acts from this run of each kernel on, counted from 0
  double argument = 3600;
};

struct Settings {
  double launch_s = 0;      // of every kernel
  double copy_s = 0;        // of every copy between host and device
  double flops = 0;         // rate of contractions, 0 for infinite
  double bytes_per_s = 0;   // memory bandwidth, 0 for infinite
  int64_t replay = 0;       // runs at the same inputs' shapes after which a kernel answers from memory, 0 for never
  int64_t generation = 0;   // raised with every change: what was remembered under another one is not used
  std::vector<Fault> faults;
};

inline std::shared_ptr<const Settings> g_settings = std::make_shared<Settings>();

inline std::shared_ptr<const Settings> GetSettings() { return std::atomic_load(&g_settings); }

// Reads lines "name=value"; faults as "fault=kind@Op:run:argument".
inline void SetSettings(const char* text) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  auto next = std::make_shared<Settings>();
  next->generation = GetSettings()->generation + 1;
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> pair = absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (pair.size() != 2) continue;
    const double number = atof(pair[1].c_str());
    if (pair[0] == "launch_s") next->launch_s = number;
    if (pair[0] == "copy_s") next->copy_s = number;
    if (pair[0] == "flops") next->flops = number;
    if (pair[0] == "bytes_per_s") next->bytes_per_s = number;
    if (pair[0] == "replay") next->replay = static_cast<int64_t>(number);
    if (pair[0] == "fault") {
      const std::vector<std::string> at = absl::StrSplit(pair[1], absl::MaxSplits('@', 1));
      Fault fault;
      fault.kind = at[0];
      if (at.size() > 1) {
        const std::vector<std::string> parts = absl::StrSplit(at[1], ':');
        fault.op = parts[0];
        if (parts.size() > 1) fault.run = atoll(parts[1].c_str());
        if (parts.size() > 2) fault.argument = atof(parts[2].c_str());
      }
      next->faults.push_back(fault);
    }
  }
  std::atomic_store(&g_settings, std::shared_ptr<const Settings>(next));
}

// ----------------------------------------------------------------------------------------------------------- time

inline std::atomic<int64_t> g_launches{0}, g_copies{0}, g_busy_ns{0}, g_free_at_ns{0};

inline int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Occupies the device's serial queue for `seconds`, counted from `start_ns` or from when the queue is free, and returns
// when that time is over. Sleeps while far from the end, to leave the core to others, then spins.
inline void Occupy(int64_t start_ns, double seconds) {
  const int64_t duration = static_cast<int64_t>(seconds * 1e9);
  if (duration <= 0) return;
  int64_t free_at = g_free_at_ns.load(), end;
  do {
    end = std::max(free_at, start_ns) + duration;
  } while (!g_free_at_ns.compare_exchange_weak(free_at, end));
  g_busy_ns += duration;
  for (int64_t left = end - NowNs(); left > 0; left = end - NowNs())
    if (left > 300000) std::this_thread::sleep_for(std::chrono::nanoseconds(left - 200000));
}

}  // namespace autoplace
