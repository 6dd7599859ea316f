#pragma once
// Device: memory, streams, events and launches of an accelerator, as a device runner uses them. Two of them:
// the emulated one (emulated/emulated_device.h), stricter than hardware, and the CUDA one (cuda/).
//   * A stream keeps its order; between streams events do: after record(event, a) and wait(b, event), b waits
//     for a.
//   * std::byte* is device memory, which the host never touches. Host memory of copies is pinned until they
//     have run.
// Errors: resource_exhausted: no such memory; unavailable: the hardware has failed, whatever it computed;
// internal: all else. After these two every later call gives the same error ("sticky", as in CUDA). Threads:
// one caller; one more may call map(), set_access() and unmap(), others copy_in(), copy_out() and
// synchronize() of streams that nobody else uses, and any thread lost(). Owner: the runner.
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

// Something that a device can launch. `entry` is the device's own business; kernels take one plain struct.
struct Kernel {
  const char* name = "";
  const void* entry = nullptr;
  std::size_t args_bytes = 0;
};

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
};

// Blocks of threads, whole warps of 32. shared_bytes: of each block, at most kMaxSharedBytes. cluster: so
// many blocks, neighbours in grid.y, which is a multiple of it, run at once and share copies
// (kernels/cluster_words.cuh); more than one only where the device has_clusters(). Blocks of a cluster, and
// such as multiply by warpgroups (kernels/warpgroup_words.cuh; where the device has_warpgroups()), which
// may be alone and take barriers of copies, too, may have kMaxClusterSharedBytes each.
struct LaunchShape {
  Dim3 grid = {}, block = {};
  std::uint32_t shared_bytes = 0;
  std::uint32_t cluster = 1;
  bool warpgroups = false;
  bool shares() const { return cluster > 1 || warpgroups; }
};
// Every compute capability from 8.0 on has these: 8.6 and 8.9 give a block 99 KiB at most. Clusters of up to
// eight blocks run everywhere that there are clusters; 9.0 gives a block 227 KiB.
inline constexpr std::uint32_t kWarp = 32, kMaxBlockThreads = 1024, kMaxSharedBytes = 99 * 1024,
                               kMaxCluster = 8, kMaxClusterSharedBytes = 227 * 1024;

// y [rows, n] = (accumulate: y +) x [rows, k] * weight [n, k]^T (+ bias [n]). x and weight are bfloat16, all
// else f32; sums are in f32. All of them begin at multiples of 256 bytes.
struct ProductArgs {
  const void *x = nullptr, *weight = nullptr;
  const float* bias = nullptr;  // or null
  float* y = nullptr;
  std::int32_t rows = 0, n = 0, k = 0;
  std::int32_t accumulate = 0;
};

// Virtual memory comes with its own rules (virtual_memory.h): its calls are done when they return, and what
// is in streams and touches what changes is a fault.
class Device : public VirtualMemory, public PeerWindows, public Collectives {
 public:
  virtual std::string describe() const = 0;  // one line
  // The sticky error; ok while there is none. Hardware may fail while nothing runs.
  virtual Status lost() const = 0;
  // By KernelId (kernel_table.h).
  virtual std::span<const Kernel> kernels() const = 0;
  // Whether its kernels are compiled for clusters of blocks: LaunchShape::cluster.
  virtual bool has_clusters() const = 0;
  // Whether they are compiled for products of warpgroups (kernels/warpgroup_words.cuh); then it
  // has_clusters().
  virtual bool has_warpgroups() const = 0;
  // Whether a kernel may begin while the one in front of it in its stream still runs (wait_for_earlier() in
  // kernels/dialect.cuh): of launches and captures from now on; at first as choices.def has it. Gives what
  // then is so: devices without clusters do without this, too.
  virtual bool launch_early(bool early) = 0;

  // At multiples of 256; `name` is for messages. bytes > 0. What is in it is anybody's guess.
  virtual Result<std::byte*> allocate(std::size_t bytes, std::string_view name) = 0;
  // Nothing that is still to run may use it.
  virtual Status free(std::byte* memory) = 0;
  virtual std::size_t free_bytes() const = 0;
  virtual Result<std::byte*> allocate_pinned(std::size_t bytes) = 0;
  virtual Status free_pinned(std::byte* memory) = 0;

  virtual Result<StreamId> create_stream() = 0;
  virtual Result<EventId> create_event() = 0;
  virtual Status record(EventId event, StreamId stream) = 0;
  // For the latest record() of the event before this call; without one there is nothing to wait for.
  virtual Status wait(StreamId stream, EventId event) = 0;
  // Until all that was put into the stream has run.
  virtual Status synchronize(StreamId stream) = 0;
  // Until the latest record() of the event has run; without one at once.
  virtual Status synchronize_event(EventId event) = 0;

  // All of them return at once. Ranges of copy() do not overlap.
  virtual Status copy_in(StreamId stream, std::byte* to, const std::byte* pinned, std::size_t bytes) = 0;
  virtual Status copy_out(StreamId stream, std::byte* pinned, const std::byte* from, std::size_t bytes) = 0;
  virtual Status copy(StreamId stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  // `args` is copied; kernel.args_bytes of it.
  virtual Status launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape,
                        const void* args) = 0;

  // Graphs: launches and copies that are put into `stream` between these two do not run, but are kept with
  // the arguments that they have, to be launched again and again. Host memory of copies is read and written
  // when the graph runs. Until end_capture() errors of this thread are: allocations and what frees them,
  // synchronize(), reserved addresses and physical memory, profiles, and events in `stream`; other streams go
  // on, and so does what other threads do. What a graph names stays where it is for as long as the graph.
  virtual Status begin_capture(StreamId stream) = 0;
  virtual Result<GraphId> end_capture(StreamId stream) = 0;
  virtual Status launch_graph(StreamId stream, GraphId graph) = 0;
  virtual Status destroy_graph(GraphId graph) = 0;

  // Products of matrices by the device's own library, for who does without the kernels' order of sums: what
  // an element is may depend on the number of rows. open_products() comes before the first multiply();
  // unavailable: there is no library; says which.
  virtual Status open_products() = 0;
  virtual Status multiply(StreamId stream, const ProductArgs& args) = 0;

  // Times each launch from now on, by events around it; until end_profile(), which waits for all of them and
  // has a line for each kernel.
  virtual Status start_profile() = 0;
  virtual Result<std::vector<KernelTime>> end_profile() = 0;
};

// The same with the type of the arguments, which has to be plain.
template <class Args>
Status launch(Device& device, StreamId stream, const Kernel& kernel, const LaunchShape& shape,
              const Args& args) {
  static_assert(std::is_trivially_copyable_v<Args>);
  CHECK(kernel.args_bytes == sizeof(Args));
  return device.launch(stream, kernel, shape, &args);
}

}  // namespace pagoda::device
