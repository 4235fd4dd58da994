// Memory, copies and streams of the device. Memory is the host's; all work is synchronous.
#pragma once

#include <stdlib.h>
#include <string.h>

#include <algorithm>

#include "queue.h"
#include "settings.h"
#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tensorflow/c/tf_status.h"

namespace autoplace {

inline void* Allocate(uint64_t size) {
  return aligned_alloc(64, (std::max<uint64_t>(size, 1) + 63) / 64 * 64);  // TensorFlow's CPU kernels need 64 bytes
}
inline void Ok(TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }

inline void Copy(void* to, const void* from, uint64_t size) {
  const Settings& settings = GetSettings();
  const int64_t start_ns = NowNs();
  ++g_copies;
  memcpy(to, from, size);
  const double transfer = settings.bytes_per_s > 0 ? 1e9 * static_cast<double>(size) / settings.bytes_per_s : 0;
  Occupy(start_ns, settings.copy_ns + static_cast<int64_t>(transfer));
}

inline void FillExecutor(SP_StreamExecutor* se) {
  se->allocate = [](const SP_Device*, uint64_t size, int64_t, SP_DeviceMemoryBase* memory) {
    memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
    memory->opaque = Allocate(size);
    memory->size = size;
  };
  se->deallocate = [](const SP_Device*, SP_DeviceMemoryBase* memory) { free(memory->opaque); memory->opaque = nullptr; };
  se->host_memory_allocate = [](const SP_Device*, uint64_t size) { return Allocate(size); };
  se->host_memory_deallocate = [](const SP_Device*, void* memory) { free(memory); };
  se->get_allocator_stats = [](const SP_Device*, SP_AllocatorStats*) -> TF_Bool { return 0; };
  se->device_memory_usage = [](const SP_Device*, int64_t* free, int64_t* total) -> TF_Bool {
    *free = *total = int64_t{8} << 30;
    return 1;
  };
  // All work is synchronous: streams and events carry no state.
  se->create_stream = [](const SP_Device*, SP_Stream* stream, TF_Status* s) { *stream = nullptr; Ok(s); };
  se->destroy_stream = [](const SP_Device*, SP_Stream) {};
  se->create_stream_dependency = [](const SP_Device*, SP_Stream, SP_Stream, TF_Status* s) { Ok(s); };
  se->get_stream_status = [](const SP_Device*, SP_Stream, TF_Status* s) { Ok(s); };
  se->create_event = [](const SP_Device*, SP_Event* event, TF_Status* s) { *event = nullptr; Ok(s); };
  se->destroy_event = [](const SP_Device*, SP_Event) {};
  se->get_event_status = [](const SP_Device*, SP_Event) { return SE_EVENT_COMPLETE; };
  se->record_event = [](const SP_Device*, SP_Stream, SP_Event, TF_Status* s) { Ok(s); };
  se->wait_for_event = [](const SP_Device*, SP_Stream, SP_Event, TF_Status* s) { Ok(s); };
  se->create_timer = [](const SP_Device*, SP_Timer* timer, TF_Status* s) { *timer = nullptr; Ok(s); };
  se->destroy_timer = [](const SP_Device*, SP_Timer) {};
  se->start_timer = se->stop_timer = [](const SP_Device*, SP_Stream, SP_Timer, TF_Status* s) { Ok(s); };
  se->memcpy_dtoh = [](const SP_Device*, SP_Stream, void* to, const SP_DeviceMemoryBase* from, uint64_t size,
                       TF_Status* s) { Copy(to, from->opaque, size); Ok(s); };
  se->memcpy_htod = [](const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, const void* from, uint64_t size,
                       TF_Status* s) { Copy(to->opaque, from, size); Ok(s); };
  se->memcpy_dtod = [](const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from,
                       uint64_t size, TF_Status* s) { Copy(to->opaque, from->opaque, size); Ok(s); };
  se->sync_memcpy_dtoh = [](const SP_Device*, void* to, const SP_DeviceMemoryBase* from, uint64_t size,
                            TF_Status* s) { Copy(to, from->opaque, size); Ok(s); };
  se->sync_memcpy_htod = [](const SP_Device*, SP_DeviceMemoryBase* to, const void* from, uint64_t size,
                            TF_Status* s) { Copy(to->opaque, from, size); Ok(s); };
  se->sync_memcpy_dtod = [](const SP_Device*, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from,
                            uint64_t size, TF_Status* s) { Copy(to->opaque, from->opaque, size); Ok(s); };
  se->block_host_for_event = [](const SP_Device*, SP_Event, TF_Status* s) { Ok(s); };
  se->block_host_until_done = [](const SP_Device*, SP_Stream, TF_Status* s) { Ok(s); };
  se->synchronize_all_activity = [](const SP_Device*, TF_Status* s) { Ok(s); };
  se->mem_zero = [](const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, uint64_t size, TF_Status* s) {
    memset(to->opaque, 0, size);
    Ok(s);
  };
  se->memset = [](const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, uint8_t value, uint64_t size,
                  TF_Status* s) { memset(to->opaque, value, size); Ok(s); };
  se->memset32 = [](const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, uint32_t value, uint64_t size,
                    TF_Status* s) {
    std::fill_n(static_cast<uint32_t*>(to->opaque), size / 4, value);
    Ok(s);
  };
  se->host_callback = [](const SP_Device*, SP_Stream, SE_StatusCallbackFn callback, void* argument) -> TF_Bool {
    TF_Status* status = TF_NewStatus();
    callback(argument, status);
    TF_DeleteStatus(status);
    return 1;
  };
}

inline void FillPlatform(SP_PlatformFns* fns) {
  fns->get_device_count = [](const SP_Platform*, int* count, TF_Status* s) { *count = 1; Ok(s); };
  fns->create_device = [](const SP_Platform*, SE_CreateDeviceParams* params, TF_Status* s) {
    params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
    params->device->ordinal = params->ordinal;
    params->device->hardware_name = "Simulated Metal";
    params->device->device_vendor = "autoplace";
    Ok(s);
  };
  fns->destroy_device = [](const SP_Platform*, SP_Device*) {};
  fns->create_device_fns = [](const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status* s) {
    params->device_fns->struct_size = SP_DEVICE_FNS_STRUCT_SIZE;
    params->device_fns->get_numa_node = [](const SP_Device*) -> int32_t { return 0; };
    params->device_fns->get_memory_bandwidth = [](const SP_Device*) -> int64_t { return -1; };
    params->device_fns->get_gflops = [](const SP_Device*) -> double { return -1; };
    Ok(s);
  };
  fns->destroy_device_fns = [](const SP_Platform*, SP_DeviceFns*) {};
  fns->create_stream_executor = [](const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status* s) {
    params->stream_executor->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
    FillExecutor(params->stream_executor);
    Ok(s);
  };
  fns->destroy_stream_executor = [](const SP_Platform*, SP_StreamExecutor*) {};
  fns->create_timer_fns = [](const SP_Platform*, SP_TimerFns* timer, TF_Status* s) {
    timer->struct_size = SP_TIMER_FNS_STRUCT_SIZE;
    timer->nanoseconds = [](SP_Timer) -> uint64_t { return 0; };
    Ok(s);
  };
  fns->destroy_timer_fns = [](const SP_Platform*, SP_TimerFns*) {};
}

}  // namespace autoplace
