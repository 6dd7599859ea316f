#pragma once
// Device: memory, streams, events and launches of an accelerator for a device runner. Implementations: the
// emulated device (emulated/emulated_device.h), stricter than hardware, and the CUDA one (cuda/).
//   * A stream runs in order. Events order streams: after record(event, a) and wait(b, event), b waits for a.
//   * std::byte* is device memory, which the host never touches. Host memory of copies stays pinned until the
//     copies have run.
// Errors: resource_exhausted: out of memory; unavailable: the hardware has failed, whatever it computed;
// internal: everything else. After the last two, every later call returns the same error ("sticky", as in
// CUDA). Threads: one caller; one more may call map(), set_access() and unmap(); others copy_in(), copy_out()
// and synchronize() on streams of their own; any thread lost(). Owner: the runner.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"
#include "device/collectives.h"
#include "device/kernel_times.h"
#include "device/peer_windows.h"
#include "device/virtual_memory.h"

namespace pagoda::device {

enum class StreamId : std::int32_t {};
enum class EventId : std::int32_t {};
enum class GraphId : std::int32_t {};

// A kernel that a device can launch. Only the device interprets `entry`. A kernel takes one plain struct.
struct Kernel {
  const char* name = "";
  const void* entry = nullptr;
  std::size_t args_bytes = 0;
};

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

// Blocks consist of whole warps of 32 threads. shared_bytes: shared memory per block, at most
// kMaxSharedBytes. cluster: this many neighbouring blocks in grid.y, which is a multiple of it, run at the
// same time and share copies (kernels/cluster_words.cuh); more than 1 requires has_clusters(). warpgroups:
// the kernel multiplies by warpgroups (kernels/warpgroup_words.cuh), which requires has_warpgroups(); its
// blocks may be a cluster of 1 and may use barriers of copies, too. Blocks of both kinds may have up to
// kMaxClusterSharedBytes each.
struct LaunchShape {
  Dim3 grid = {}, block = {};
  std::uint32_t shared_bytes = 0;
  std::uint32_t cluster = 1;
  bool warpgroups = false;
  bool shares() const { return cluster > 1 || warpgroups; }
};
// Limits that hold for every compute capability from 8.0 on: 8.6 and 8.9 allow a block at most 99 KiB.
// Clusters of up to eight blocks run on every device that has clusters; 9.0 allows a block 227 KiB.
inline constexpr std::uint32_t kWarp = 32, kMaxBlockThreads = 1024, kMaxSharedBytes = 99 * 1024,
                               kMaxCluster = 8, kMaxClusterSharedBytes = 227 * 1024;

// y [rows, n] = (accumulate: y +) x [rows, k] * weight [n, k]^T (+ bias [n]). x and weight are bfloat16,
// everything else f32; sums are in f32. All pointers are multiples of 256 bytes.
struct ProductArgs {
  const void *x = nullptr, *weight = nullptr;
  const float* bias = nullptr;  // or null
  float* y = nullptr;
  std::int32_t rows = 0, n = 0, k = 0;
  std::int32_t accumulate = 0;
};

// Virtual memory has its own rules (virtual_memory.h): its calls are complete when they return; it is a fault
// if work in a stream touches memory that a call changes.
class Device : public VirtualMemory, public PeerWindows, public Collectives {
 public:
  virtual std::string describe() const = 0;  // one line
  // The sticky error; ok if there is none. Hardware may fail while nothing runs.
  virtual Status lost() const = 0;
  // Indexed by KernelId (kernel_table.h).
  virtual std::span<const Kernel> kernels() const = 0;
  // True if its kernels are compiled for clusters of blocks (LaunchShape::cluster).
  virtual bool has_clusters() const = 0;
  // True if its kernels are compiled for products of warpgroups (kernels/warpgroup_words.cuh). Implies
  // has_clusters().
  virtual bool has_warpgroups() const = 0;
  // Sets whether a kernel may begin while the previous kernel in its stream still runs (wait_for_earlier() in
  // kernels/dialect.cuh), for launches and captures from now on. The initial value is in choices.def. Returns
  // the value in effect: always false on devices without clusters.
  virtual bool launch_early(bool early) = 0;

  // The result is a multiple of 256; `name` is for messages. bytes > 0. Not initialised.
  virtual Result<std::byte*> allocate(std::size_t bytes, std::string_view name) = 0;
  // No pending work may use the memory.
  virtual Status free(std::byte* memory) = 0;
  virtual std::size_t free_bytes() const = 0;
  virtual Result<std::byte*> allocate_pinned(std::size_t bytes) = 0;
  virtual Status free_pinned(std::byte* memory) = 0;

  virtual Result<StreamId> create_stream() = 0;
  virtual Result<EventId> create_event() = 0;
  virtual Status record(EventId event, StreamId stream) = 0;
  // Waits for the latest record() of the event before this call; a no-op if there is none.
  virtual Status wait(StreamId stream, EventId event) = 0;
  // Waits until all work enqueued on the stream has run.
  virtual Status synchronize(StreamId stream) = 0;
  // Waits until the latest record() of the event has run; returns at once if there is none.
  virtual Status synchronize_event(EventId event) = 0;

  // These calls return at once. The ranges of copy() do not overlap.
  virtual Status copy_in(StreamId stream, std::byte* to, const std::byte* pinned, std::size_t bytes) = 0;
  virtual Status copy_out(StreamId stream, std::byte* pinned, const std::byte* from, std::size_t bytes) = 0;
  virtual Status copy(StreamId stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  // Copies kernel.args_bytes bytes of `args`.
  virtual Status launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape,
                        const void* args) = 0;

  // Graphs: launches and copies enqueued on `stream` between these two calls do not run. They are kept with
  // their arguments, to be launched repeatedly. Host memory of copies is read and written when the graph
  // runs. Until end_capture(), these calls are errors on this thread: allocating and freeing, synchronize(),
  // virtual and physical memory, profiles, and events in `stream`. Other streams and other threads continue
  // normally. Memory that a graph names must stay valid as long as the graph.
  virtual Status begin_capture(StreamId stream) = 0;
  virtual Result<GraphId> end_capture(StreamId stream) = 0;
  virtual Status launch_graph(StreamId stream, GraphId graph) = 0;
  virtual Status destroy_graph(GraphId graph) = 0;

  // Products by the device's own library, for callers that do not need the kernels' order of sums: the bits
  // of an element may depend on the number of rows. Call open_products() before the first multiply().
  // unavailable: there is no library; the message names it.
  virtual Status open_products() = 0;
  virtual Status multiply(StreamId stream, const ProductArgs& args) = 0;

  // Times each launch from now on, by events around it, until end_profile(), which waits for all of them and
  // returns one line per kernel.
  virtual Status start_profile() = 0;
  virtual Result<std::vector<KernelTime>> end_profile() = 0;
};

// Typed overload. `Args` must be trivially copyable.
template <class Args>
Status launch(Device& device, StreamId stream, const Kernel& kernel, const LaunchShape& shape,
              const Args& args) {
  static_assert(std::is_trivially_copyable_v<Args>);
  CHECK(kernel.args_bytes == sizeof(Args));
  return device.launch(stream, kernel, shape, &args);
}

}  // namespace pagoda::device
