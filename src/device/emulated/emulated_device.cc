#include "device/emulated/emulated_device.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "base/strings.h"
#include "device/emulated/register_file.h"
#include "device/kernel_table.h"

namespace pagoda::device::emulated {

Result<std::unique_ptr<EmulatedDevice>> EmulatedDevice::create(const EmulatedOptions& options) {
  if (emulated_kernels().empty())
    return unimplemented("this build is without it (PAGODA_NATIVE); `script/build pagoda` makes one with it");
  auto memory = DeviceMemory::create(options.memory_bytes, options.granule);
  if (!memory) return memory.error();
  return std::unique_ptr<EmulatedDevice>(new EmulatedDevice(options, *std::move(memory)));
}

EmulatedDevice::EmulatedDevice(const EmulatedOptions& options, DeviceMemory memory)
    : options_(options),
      memory_(std::move(memory)),
      runner_(memory_, windows_, options.count_accesses ? &access_counts_ : nullptr,
              options.backward_kernels),
      queues_(options.seed) {}

EmulatedDevice::~EmulatedDevice() = default;

std::string EmulatedDevice::describe() const {
  return concat("an emulated device with ", options_.memory_bytes >> 20, " MiB, on the CPU");
}

std::span<const Kernel> EmulatedDevice::kernels() const { return emulated_kernels(); }

Status EmulatedDevice::stick(Status status) const {
  if (lost_.ok() && !status.ok()) lost_ = status;
  return status;
}

Status EmulatedDevice::lost() const {
  const Call call(*this);
  if (++looks_ == options_.lost_look)
    (void)stick(unavailable(concat("the emulated device is lost, as asked, in look ", looks_)));
  return lost_;
}

Result<std::byte*> EmulatedDevice::allocate(std::size_t bytes, std::string_view name) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("allocate()"));
  if (++allocations_ == options_.refused_allocation)
    return resource_exhausted(concat("the emulated device refuses ", bytes, " bytes for ", name));
  return memory_.allocate(bytes, name);
}

Status EmulatedDevice::free(std::byte* memory) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("free()"));
  PAGODA_RETURN_IF_ERROR(stick(graphs_.not_named(memory, memory_.bytes_at(memory))));
  return stick(memory_.free(memory));
}

Result<std::byte*> EmulatedDevice::allocate_pinned(std::size_t bytes) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("allocate_pinned()"));
  if (++allocations_ == options_.refused_allocation)
    return resource_exhausted(concat("the emulated device refuses ", bytes, " bytes of pinned memory"));
  std::vector<std::byte> memory(bytes, std::byte{0xFF});
  std::byte* const data = memory.data();
  pinned_.emplace(data, std::move(memory));
  return data;
}

Status EmulatedDevice::free_pinned(std::byte* memory) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("free_pinned()"));
  if (const auto found = pinned_.find(memory); found != pinned_.end())
    PAGODA_RETURN_IF_ERROR(stick(graphs_.not_named(memory, found->second.size())));
  return pinned_.erase(memory) == 1 ? ok_status() : lose("free_pinned() of memory that is not pinned");
}

Result<std::byte*> EmulatedDevice::reserve(std::size_t bytes) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("reserve()"));
  return memory_.with_space([&](VirtualSpace& space) { return space.reserve(bytes); });
}

Status EmulatedDevice::release(std::byte* addresses) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("release()"));
  const std::size_t bytes =
      memory_.with_space([&](const VirtualSpace& space) { return space.bytes_at(addresses); });
  PAGODA_RETURN_IF_ERROR(stick(graphs_.not_named(addresses, bytes)));
  return memory_.with_space([&](VirtualSpace& space) { return space.release(addresses); });
}

Result<PhysicalId> EmulatedDevice::create_physical(std::size_t bytes) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("create_physical()"));
  const std::size_t free = memory_.free_bytes();
  if (++allocations_ == options_.refused_allocation || bytes > free)
    return resource_exhausted(
        concat("the emulated device refuses ", bytes, " bytes of physical memory; ", free, " are free"));
  return memory_.with_space([&](VirtualSpace& space) { return space.create(bytes); });
}

Status EmulatedDevice::destroy_physical(PhysicalId memory) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("destroy_physical()"));
  return memory_.with_space([&](VirtualSpace& space) { return space.destroy(memory); });
}

// Another thread may also call these three: they only access the device's address space.
Status EmulatedDevice::map(std::byte* address, PhysicalId memory) {
  return memory_.with_space([&](VirtualSpace& space) { return space.map(address, memory); });
}

Status EmulatedDevice::set_access(std::byte* address, std::size_t bytes) {
  return memory_.with_space([&](VirtualSpace& space) { return space.set_access(address, bytes); });
}

Status EmulatedDevice::unmap(std::byte* address, std::size_t bytes) {
  return memory_.with_space([&](VirtualSpace& space) { return space.unmap(address, bytes); });
}

Result<Window> EmulatedDevice::create_window(std::size_t bytes) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("create_window()"));
  const std::size_t all = memory_.free_bytes(), free = all - std::min(all, windows_.own_bytes());
  if (++allocations_ == options_.refused_allocation || bytes > free)
    return resource_exhausted(
        concat("the emulated device refuses ", bytes, " bytes for a window; ", free, " are free"));
  return windows_.create(bytes);
}

Result<std::byte*> EmulatedDevice::open_window(const WindowHandle& handle) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("open_window()"));
  return windows_.open(handle);
}

Result<StreamId> EmulatedDevice::create_stream() {
  const Call call(*this);
  if (!lost_.ok()) return lost_;
  const StreamId stream = queues_.add_stream();
  num_streams_ = static_cast<std::int32_t>(stream) + 1;
  return stream;
}

Result<EventId> EmulatedDevice::create_event() {
  const Call call(*this);
  if (!lost_.ok()) return lost_;
  return queues_.add_event();
}

Status EmulatedDevice::record(EventId event, StreamId stream) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(lost_);
  if (!queues_.has(event) || !queues_.has(stream)) return lose("record() of an event or stream that is none");
  if (graphs_.captures(stream)) return lose("record() in a stream that is captured");
  return stick(queues_.record(event, stream));
}

Status EmulatedDevice::wait(StreamId stream, EventId event) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(lost_);
  if (!queues_.has(event) || !queues_.has(stream)) return lose("wait() for an event or stream that is none");
  if (graphs_.captures(stream)) return lose("wait() in a stream that is captured");
  return stick(queues_.wait(stream, event));
}

std::size_t EmulatedDevice::free_bytes() const {
  const Call call(*this);
  const std::size_t free = memory_.free_bytes();
  return free - std::min(free, windows_.own_bytes());
}

// Other threads' calls proceed between two work items. Memory that was opened for the work is closed at the
// end.
template <class Id, class Done>
Status EmulatedDevice::run_until(std::string_view name, std::string_view kind, Id id, const Done& is_done) {
  const struct Closes {
    DeviceMemory& memory;
    ~Closes() { memory.close(); }
  } closes{memory_};
  for (;;) {
    const Call call(*this);
    PAGODA_RETURN_IF_ERROR(allowed(name));
    if (!queues_.has(id)) return lose(concat(name, " of ", kind, " that is none"));
    if (is_done()) return ok_status();
    PAGODA_RETURN_IF_ERROR(stick(queues_.run_one()));
  }
}

Status EmulatedDevice::synchronize(StreamId stream) {
  return run_until("synchronize()", "a stream", stream, [&] { return queues_.is_empty(stream); });
}

Status EmulatedDevice::synchronize_event(EventId event) {
  return run_until("synchronize_event()", "an event", event, [&] { return queues_.has_reached(event); });
}

std::string EmulatedDevice::wrong_range(const std::byte* memory, Side side, std::size_t bytes) const {
  if (side == Side::device) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    return windows_.contains(address) ? windows_.fault(address, bytes) : memory_.range(memory, bytes);
  }
  auto after = pinned_.upper_bound(memory);
  if (after == pinned_.begin()) return "host memory that is not pinned";
  const auto& [begin, pinned] = *--after;
  const auto at = static_cast<std::size_t>(memory - begin);
  return at <= pinned.size() && bytes <= pinned.size() - at ? "" : "host memory that is not pinned";
}

Status EmulatedDevice::put_copy(StreamId stream, std::byte* to, Side to_side, const std::byte* from,
                                Side from_side, std::size_t bytes) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(lost_);
  if (!queues_.has(stream)) return lose("a copy in a stream that is none");
  if (bytes == 0) return ok_status();
  // Ranges are checked when the copy runs: by then they may have been freed.
  const auto run = [=, this]() -> Status {
    const DeviceMemory::Open open(memory_);
    for (const auto& [memory, side, verb] :
         {std::tuple{from, from_side, "reads "},
          std::tuple{const_cast<const std::byte*>(to), to_side, "writes "}})
      if (const std::string wrong = wrong_range(memory, side, bytes); !wrong.empty())
        return internal_error(concat("a copy ", verb, bytes, " bytes ", wrong));
    std::memmove(to, from, bytes);
    return ok_status();
  };
  return put(stream, "a copy", run,
             {reinterpret_cast<std::uintptr_t>(to), reinterpret_cast<std::uintptr_t>(from)});
}

Status EmulatedDevice::put(StreamId stream, std::string_view name, StreamQueues::Task run,
                           std::vector<std::uintptr_t> words) {
  if (!graphs_.captures(stream)) return stick(queues_.push(stream, std::move(run)));
  graphs_.add({.name = std::string(name), .run = std::move(run), .words = std::move(words)});
  return ok_status();
}

Status EmulatedDevice::begin_capture(StreamId stream) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(lost_);
  if (!queues_.has(stream)) return lose("begin_capture() of a stream that is none");
  if (profile_) return lose("begin_capture() in a profile");
  return stick(graphs_.begin(stream));
}

Result<GraphId> EmulatedDevice::end_capture(StreamId stream) {
  const Call call(*this);
  if (!lost_.ok()) return lost_;
  auto graph = graphs_.end(stream);
  if (!graph) return stick(graph.error());
  return graph;
}

Status EmulatedDevice::launch_graph(StreamId stream, GraphId graph) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("launch_graph()"));
  if (!queues_.has(stream)) return lose("launch_graph() in a stream that is none");
  auto tasks = graphs_.tasks(graph);
  if (!tasks) return stick(tasks.error());
  for (const CapturedGraphs::Task& task : *tasks)
    PAGODA_RETURN_IF_ERROR(stick(queues_.push(stream, task.run)));
  return ok_status();
}

Status EmulatedDevice::destroy_graph(GraphId graph) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("destroy_graph()"));
  return stick(graphs_.destroy(graph));
}

Status EmulatedDevice::copy_in(StreamId stream, std::byte* to, const std::byte* pinned, std::size_t bytes) {
  return put_copy(stream, to, Side::device, pinned, Side::host, bytes);
}

Status EmulatedDevice::copy_out(StreamId stream, std::byte* pinned, const std::byte* from,
                                std::size_t bytes) {
  return put_copy(stream, pinned, Side::host, from, Side::device, bytes);
}

Status EmulatedDevice::copy(StreamId stream, std::byte* to, const std::byte* from, std::size_t bytes) {
  return put_copy(stream, to, Side::device, from, Side::device, bytes);
}

Status EmulatedDevice::launch(StreamId stream, const Kernel& kernel, const LaunchShape& shape,
                              const void* args) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(lost_);
  if (!queues_.has(stream)) return lose("a launch in a stream that is none");
  const Dim3 grid = shape.grid, block = shape.block;
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxBlockThreads || threads % kWarp != 0 || grid.x == 0 || grid.y == 0 ||
      grid.z == 0 || grid.x > 0x7FFFFFFF || grid.y > 65535 || grid.z > 65535 ||
      shape.shared_bytes > (shape.shares() ? kMaxClusterSharedBytes : kMaxSharedBytes) ||
      shape.cluster == 0 || shape.cluster > kMaxCluster || grid.y % shape.cluster != 0 ||
      threads * shape.cluster > kMaxBlockThreads || (shape.shares() && !options_.clusters))
    return lose(concat("a launch of ", kernel.name, " with a shape that no device takes"));
  if (!has_registers(kernel.name, threads))
    return lose(concat("a launch of ", kernel.name, " in blocks of ", threads, " threads, each of which has ",
                       registers_of(kernel.name), " registers: no block has as many"));
  const auto* bytes = static_cast<const std::byte*>(args);
  std::vector<std::byte> copied(bytes, bytes + kernel.args_bytes);
  std::vector<std::uintptr_t> words = words_of(copied);
  return put(
      stream, kernel.name,
      [this, kernel, shape, copied = std::move(copied)] { return run(kernel, shape, copied); },
      std::move(words));
}

Status EmulatedDevice::multiply(StreamId stream, const ProductArgs& args) {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(lost_);
  if (!queues_.has(stream)) return lose("a product in a stream that is none");
  if (args.rows <= 0 || args.n <= 0 || args.k <= 0) return lose("a product of no rows or columns");
  return put(
      stream, "a product", [this, args] { return run_product(args); },
      words_of(std::as_bytes(std::span(&args, 1))));
}

// Sums from the end, so that code that expects the kernels' order finds other bits.
Status EmulatedDevice::run_product(const ProductArgs& args) {
  const DeviceMemory::Open open(memory_);
  const auto rows = static_cast<std::size_t>(args.rows), n = static_cast<std::size_t>(args.n),
             k = static_cast<std::size_t>(args.k);
  const std::tuple<const void*, std::size_t> parts[] = {
      {args.x, rows * k * 2}, {args.weight, n * k * 2}, {args.y, rows * n * 4}, {args.bias, n * 4}};
  for (const auto& [part, bytes] : parts) {
    if (part == nullptr && part == args.bias) continue;
    if (reinterpret_cast<std::uintptr_t>(part) % 256 != 0)
      return internal_error("a product of what is not aligned to 256 bytes");
    if (const std::string wrong = memory_.range(static_cast<const std::byte*>(part), bytes); !wrong.empty())
      return internal_error(concat("a product reads or writes ", bytes, " bytes ", wrong));
  }
  const auto* const x = static_cast<const std::uint16_t*>(args.x);
  const auto* const weight = static_cast<const std::uint16_t*>(args.weight);
  const auto number = [](std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  };
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t c = 0; c < n; ++c) {
      float sum = 0;
      for (std::size_t i = k; i-- > 0;) sum += number(x[r * k + i]) * number(weight[c * k + i]);
      float& y = args.y[r * n + c];
      y = (args.accumulate != 0 ? y + sum : sum) + (args.bias != nullptr ? args.bias[c] : 0);
    }
  return ok_status();
}

Status EmulatedDevice::open_products() {
  const Call call(*this);
  return allowed("open_products()");
}

Status EmulatedDevice::start_profile() {
  const Call call(*this);
  PAGODA_RETURN_IF_ERROR(allowed("start_profile()"));
  profile_.emplace();
  return lost_;
}

Result<std::vector<KernelTime>> EmulatedDevice::end_profile() {
  for (std::int32_t i = 0; i < num_streams_; ++i)
    PAGODA_RETURN_IF_ERROR(synchronize(static_cast<StreamId>(i)));
  const Call call(*this);
  return sum_by_kernel(std::exchange(profile_, std::nullopt).value_or(std::vector<KernelTime>()));
}

Status EmulatedDevice::run(const Kernel& kernel, const LaunchShape& shape, std::span<const std::byte> args) {
  if (++launches_ == options_.lost_launch)
    return internal_error(
        concat("the emulated device is lost, as asked, in launch ", launches_, ": ", kernel.name));
  const DeviceMemory::Open open(memory_);
  const SteadyClock clock;
  const TimeNs start = clock.now();
  const std::string fault =
      runner_.run(kernel, shape, args, random_bits(options_.seed, 1, static_cast<std::uint64_t>(launches_)));
  if (profile_) profile_->push_back({kernel.name, 1, 1e6 * to_seconds(clock.now() - start)});
  return fault.empty() ? ok_status() : internal_error(fault);
}

}  // namespace pagoda::device::emulated
