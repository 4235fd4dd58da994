// What the device is told: its times, whether it replays, its faults. Python sends it as text; every kernel reads it.
#pragma once

#include <stdint.h>
#include <stdlib.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace autoplace {

// One fault, written "kind@Op:first_run:argument". The kinds are described in fault_specs.py.
struct Fault {
  std::string kind, op;
  int64_t first_run = 0;  // acts from this run of each kernel on, counted from 0 since the faults were set
  double argument = 0;    // seconds for `hang`, else the number of runs it lasts; 0 stands for no end
};

struct Settings {
  int64_t launch_ns = 0;         // of every kernel
  int64_t copy_ns = 0;           // of every copy between host and device
  double flops = 0;              // peak rate of contractions in float32, per second; 0: no limit
  double half_flops = 0;         // the same in float16 and bfloat16
  double bytes_per_s = 0;        // memory bandwidth; 0: no limit
  double efficiency = 1;         // part of the peak that contractions reach
  std::map<std::string, double> efficiency_of;  // the same for single operations
  int64_t replay_after = 0;      // runs after which a kernel answers from memory; 0: never
  int64_t replay_bytes = 0;      // what may be remembered in all
  std::vector<Fault> faults;
  std::string times_text, faults_text;  // what was sent, to see what a change touches

  bool HasTimes() const { return launch_ns > 0 || flops > 0 || bytes_per_s > 0; }
};

inline const Settings kNothing;
inline std::atomic<const Settings*> g_settings{&kNothing};
inline std::atomic<int64_t> g_faults_epoch{0};  // raised when the faults change: runs are counted anew

// Settings are never freed: a kernel in another thread may still read them. Equal ones are kept once, and one takes
// some hundred bytes.
inline const Settings& GetSettings() { return *g_settings.load(std::memory_order_acquire); }

inline bool ParseFault(const std::string& text, Fault* fault) {
  const std::vector<std::string> at = absl::StrSplit(text, absl::MaxSplits('@', 1));
  fault->kind = at[0];
  if (at.size() == 1) return true;
  const std::vector<std::string> parts = absl::StrSplit(at[1], ':');
  fault->op = parts[0];
  if (parts.size() > 1 && !absl::SimpleAtoi(parts[1], &fault->first_run)) return false;
  return parts.size() < 3 || absl::SimpleAtod(parts[2], &fault->argument);
}

inline bool ParseLine(const std::string& name, const std::string& value, Settings* settings) {
  if (name == "fault") {
    settings->faults.emplace_back();
    settings->faults_text += value + "\n";
    return ParseFault(value, &settings->faults.back());
  }
  settings->times_text += name + "=" + value + "\n";
  if (name == "efficiency_of") {
    const std::vector<std::string> parts = absl::StrSplit(value, ':');
    return parts.size() == 2 && absl::SimpleAtod(parts[1], &settings->efficiency_of[parts[0]]);
  }
  const std::map<std::string, int64_t*> whole = {{"launch_ns", &settings->launch_ns},
                                                 {"copy_ns", &settings->copy_ns},
                                                 {"replay_after", &settings->replay_after},
                                                 {"replay_bytes", &settings->replay_bytes}};
  const std::map<std::string, double*> real = {{"flops", &settings->flops},
                                               {"half_flops", &settings->half_flops},
                                               {"bytes_per_s", &settings->bytes_per_s},
                                               {"efficiency", &settings->efficiency}};
  if (whole.count(name)) return absl::SimpleAtoi(value, whole.at(name));
  return real.count(name) && absl::SimpleAtod(value, real.at(name));
}

// Reads lines "name=value"; null where one is not understood.
inline std::unique_ptr<Settings> ParseSettings(const std::string& text) {
  auto settings = std::make_unique<Settings>();
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> pair = absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (pair.size() != 2 || !ParseLine(pair[0], pair[1], settings.get())) return nullptr;
  }
  return settings;
}

// The settings of a text, made once. Null where it is not understood.
inline const Settings* Intern(const std::string& text) {
  static std::mutex mutex;
  static auto* known = new std::map<std::string, std::unique_ptr<Settings>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Settings>& found = (*known)[text];
  if (!found) found = ParseSettings(text);
  return found.get();
}

}  // namespace autoplace
