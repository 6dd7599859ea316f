#pragma once
// Backend: which implementation of the ops runs. `reference` is plain, slow and obviously correct; `cpu`
// chooses AVX-512, AVX2 or portable code at run time; `device` launches kernels on an accelerator, which
// holds all buffers in its memory. All obey the same rule: every output element is reduced in an order that
// depends only on its own row, never on the batch, the tiles or the threads.
#include <optional>
#include <string_view>

#include "base/thread_pool.h"

namespace pagoda {

class DeviceOps;
class ReadAhead;

enum class Backend { reference, cpu, device };
// A build without devices omits the functions that are called only under on_device() (CMakeLists.txt).
#if defined(PAGODA_NO_DEVICES)
inline constexpr bool kHasDevices = false;
#else
inline constexpr bool kHasDevices = true;
#endif
enum class CpuLevel { portable, avx2, avx512 };  // avx512: F, BW, VL, DQ, VNNI, BF16, VBMI, GFNI

// The prefetch distance of kernels, chosen by measurement; results do not depend on it. zen3: AMD processors
// with AVX2 but not AVX-512 (measured on Zen 3); intel: measured on Emerald Rapids; common: Zen 4 (measured),
// and every processor that was not measured.
enum class CpuTuning { common, zen3, zen5, intel };

bool cpu_level_usable(CpuLevel level);  // the processor supports it and this build has its kernels
CpuLevel detected_cpu_level();          // the highest usable level; portable if none is usable
// The higher level that the processor supports but this build has no kernels for; nullopt if there is none.
std::optional<CpuLevel> missing_cpu_level();
CpuTuning detected_cpu_tuning();
std::string_view cpu_level_name(CpuLevel level);
std::optional<CpuLevel> cpu_level_named(std::string_view name);

// Passed to every op: where it runs and on which threads.
struct KernelContext {
  Backend backend = Backend::cpu;
  CpuLevel level = detected_cpu_level();
  CpuTuning tuning = detected_cpu_tuning();
  ThreadPool* pool = nullptr;   // null: only the calling thread
  DeviceOps* device = nullptr;  // Backend::device: owns the buffers (kernels/device/device_ops.h)
  // Memory that linear prefetches into the cache while it multiplies; null for none.
  ReadAhead* read_ahead = nullptr;
};

inline bool on_device(Backend backend) { return kHasDevices && backend == Backend::device; }
inline bool on_device(const KernelContext& context) { return on_device(context.backend); }

}  // namespace pagoda
