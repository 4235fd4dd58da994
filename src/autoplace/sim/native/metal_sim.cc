// A simulated Metal device for TensorFlow on Linux.
//
// TensorFlow loads this library as a pluggable device and lists it as GPU:0. Memory is host memory, and each kernel
// delegates to the operation's own CPU kernel, so results are right unless a fault is switched on. Time is simulated:
// the device is a serial queue, and a kernel returns when its simulated duration is over.
//
// AUTOPLACE_SIM_KERNELS names the file with the kernel table; it is read once, when the library is loaded.
#include <fstream>

#include "delegate.h"
#include "executor.h"
#include "rewrite.h"

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
  const char* path = getenv("AUTOPLACE_SIM_KERNELS");
  std::ifstream table(path ? path : "");
  if (!table) fprintf(stderr, "autoplace.sim: no kernel table at %s\n", path ? path : "(not set)");
  for (std::string line; std::getline(table, line);)
    if (!line.empty()) autoplace::RegisterKernel(line);
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

void AutoplaceSim_Set(const char* text) { autoplace::SetSettings(text); }

void AutoplaceSim_Counters(int64_t* counters) {
  counters[0] = autoplace::g_launches;
  counters[1] = autoplace::g_copies;
  counters[2] = autoplace::g_busy_ns;
}
}
