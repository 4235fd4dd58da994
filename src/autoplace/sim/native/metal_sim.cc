// A simulated Metal device for TensorFlow on Linux. The README of the room has the guarantees and the traps.
//
// Python opens this library, hands over the kernel table, and lets TensorFlow load it as a pluggable device: TensorFlow
// calls SE_InitPlugin, TF_InitKernel and TF_InitGraph, once. The AutoplaceSim_* functions may be called at any time.
#include <stdint.h>

#include <cstdio>
#include <mutex>
#include <string>

#include "absl/strings/str_split.h"
#include "delegate.h"
#include "executor.h"
#include "rewrite.h"

namespace {
std::string* g_kernel_table = new std::string;
}

extern "C" {

void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status* status) {
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "METAL_SIM";
  params->platform->type = "GPU";
  params->platform->supports_unified_memory = 0;  // the three flags as tensorflow-metal 1.2.0 sets them
  params->platform->use_bfc_allocator = 0;
  params->platform->force_memory_growth = 0;
  params->platform_fns->struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  autoplace::FillPlatform(params->platform_fns);
  params->destroy_platform = [](SP_Platform*) {};
  params->destroy_platform_fns = [](SP_PlatformFns*) {};
  autoplace::Ok(status);
}

void TF_InitKernel() {
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(*g_kernel_table, '\n', absl::SkipEmpty())))
    if (!autoplace::RegisterKernel(line))
      fprintf(stderr, "autoplace.sim: a line of the kernel table is not understood: %s\n", line.c_str());
}

void TF_InitGraph(TP_OptimizerRegistrationParams* params, TF_Status* status) {
  params->struct_size = TP_OPTIMIZER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->device_type = "GPU";
  params->optimizer_configs->struct_size = TP_OPTIMIZER_CONFIGS_STRUCT_SIZE;
  // Both are off in every version of tensorflow-metal from 0.2.0 to 1.2.0. With the layout optimizer on, NHWC would
  // become NCHW, for which there is no CPU kernel to delegate to.
  params->optimizer_configs->layout_optimizer = TF_TriState_Off;
  params->optimizer_configs->remapping = TF_TriState_Off;
  params->optimizer->struct_size = TP_OPTIMIZER_STRUCT_SIZE;
  params->optimizer->optimize_func = autoplace::Optimize;
  autoplace::Ok(status);
}

// The kernel table, one kernel a line; to be set before TensorFlow loads the library.
void AutoplaceSim_SetKernels(const char* text) { *g_kernel_table = text; }

// Puts new settings in force: 0, or -1 where they are not understood and the old ones stay.
int AutoplaceSim_Set(const char* text) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  const autoplace::Settings* next = autoplace::Intern(text);
  if (!next) return -1;
  const autoplace::Settings* old = autoplace::g_settings.exchange(next);
  if (old->faults_text != next->faults_text) ++autoplace::g_faults_epoch;
  if (old->replay_after > 0 && old->times_text != next->times_text) autoplace::ForgetAll();
  return 0;
}

// Launches, copies, simulated nanoseconds busy, bytes remembered for replay.
void AutoplaceSim_Counters(int64_t* counters) {
  counters[0] = autoplace::g_launches;
  counters[1] = autoplace::g_copies;
  counters[2] = autoplace::g_busy_ns;
  counters[3] = autoplace::g_remembered_bytes;
}
}
