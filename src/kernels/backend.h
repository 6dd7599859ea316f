#pragma once
// Backend: which implementation of the ops runs. `reference` is plain, slow and obviously right; `cpu`
// chooses AVX-512, AVX2 or portable code at run time; `device` launches kernels of an accelerator, on whose
// memory all buffers lie. All obey the same rule: every output element is reduced in an order that depends on
// its own row alone, never on the batch, the tiles or the threads.
#include <optional>
#include <string_view>

#include "base/thread_pool.h"

namespace pagoda {

class DeviceOps;
class ReadAhead;

enum class Backend { reference, cpu, device };
// A build without devices leaves out the functions that are called where on_device() alone (CMakeLists.txt).
#if defined(PAGODA_NO_DEVICES)
inline constexpr bool kHasDevices = false;
#else
inline constexpr bool kHasDevices = true;
#endif
enum class CpuLevel { portable, avx2, avx512 };  // avx512: F, BW, VL, DQ, VNNI, BF16, VBMI, GFNI

// How far ahead kernels fetch what they read: what measured best. No result depends on it. zen3: AMD's with
// AVX2 alone, of which Zen 3 was measured; intel: Emerald Rapids was measured; common: Zen 4, and what was
// not.
enum class CpuTuning { common, zen3, zen5, intel };

bool cpu_level_usable(CpuLevel level);  // the processor runs it, and this build has its kernels
CpuLevel detected_cpu_level();          // the highest usable one; portable, too, where none is
// The level that the processor would run beyond that, of which this build has no kernels.
std::optional<CpuLevel> missing_cpu_level();
CpuTuning detected_cpu_tuning();
std::string_view cpu_level_name(CpuLevel level);
std::optional<CpuLevel> cpu_level_named(std::string_view name);

// Handed to every op: where to run and on which threads.
struct KernelContext {
  Backend backend = Backend::cpu;
  CpuLevel level = detected_cpu_level();
  CpuTuning tuning = detected_cpu_tuning();
  ThreadPool* pool = nullptr;       // null: the calling thread alone
  DeviceOps* device = nullptr;      // Backend::device: where buffers lie (kernels/device/device_ops.h)
  ReadAhead* read_ahead = nullptr;  // memory that linear brings into the cache meanwhile; null: none
};

inline bool on_device(Backend backend) { return kHasDevices && backend == Backend::device; }
inline bool on_device(const KernelContext& context) { return on_device(context.backend); }

}  // namespace pagoda
