// The device's time: a serial queue. Work occupies it for its modelled duration, and whoever asked waits that long.
#pragma once

#include <stdint.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace autoplace {

inline std::atomic<int64_t> g_launches{0}, g_copies{0}, g_busy_ns{0}, g_free_at_ns{0};

constexpr int64_t kSpinNs = 200'000;  // a sleeping thread wakes up to some 100 us late

inline int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Occupies the queue for `duration_ns`, from `start_ns` or from when the work before is done, and returns when that
// time is over. Sleeps while far from the end, or the CPU's own layers would starve on few cores; spins at the end.
inline void Occupy(int64_t start_ns, int64_t duration_ns) {
  if (duration_ns <= 0) return;
  int64_t free_at = g_free_at_ns.load(), end;
  do {
    end = std::max(free_at, start_ns) + duration_ns;
  } while (!g_free_at_ns.compare_exchange_weak(free_at, end));
  g_busy_ns += duration_ns;
  for (int64_t left = end - NowNs(); left > 0; left = end - NowNs())
    if (left > kSpinNs) std::this_thread::sleep_for(std::chrono::nanoseconds(left - kSpinNs));
}

}  // namespace autoplace
