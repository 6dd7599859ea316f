#include "device/emulated/block_runner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/random.h"
#include "base/strings.h"

namespace pagoda::device::emulated {
namespace {

thread_local BlockRunner* running_block = nullptr;

Dim3 unfold(std::uint32_t number, const Dim3& size) {
  return {number % size.x, number / size.x % size.y, number / size.x / size.y};
}

std::string text(const Dim3& index) { return concat("(", index.x, ", ", index.y, ", ", index.z, ")"); }

}  // namespace

BlockRunner::BlockRunner(DeviceMemory& memory, const WindowMappings& windows, AccessCounts* counts,
                         std::string backward)
    : memory_(memory),
      windows_(windows),
      counts_(counts),
      stacks_(kMaxBlockThreads),
      copies_(kMaxBlockThreads),
      backward_(std::move(backward)) {}

BlockRunner& BlockRunner::running() {
  CHECK(running_block != nullptr);
  return *running_block;
}

std::string BlockRunner::run(const Kernel& kernel, const LaunchShape& shape, std::span<const std::byte> args,
                             std::uint64_t order) {
  kernel_ = &kernel;
  shape_ = &shape;
  args_ = args;
  ++launch_;
  order_ = order;
  num_threads_ = shape.block.x * shape.block.y * shape.block.z;
  const std::uint32_t threads = num_threads_ * shape.cluster;
  CHECK(threads <= kMaxBlockThreads);
  places_.resize(threads);
  for (std::uint32_t i = 0; i < threads; ++i)
    places_[i] = {i / num_threads_, i % num_threads_, unfold(i % num_threads_, shape.block)};
  states_.resize(threads);
  warps_.resize(threads / kWarp);
  if (blocks_.size() < shape.cluster) blocks_.resize(shape.cluster);
  fault_.clear();
  tickets_.clear();
  running_block = this;
  const Dim3 clusters = {shape.grid.x, shape.grid.y / shape.cluster, shape.grid.z};
  const std::uint32_t count = clusters.x * clusters.y * clusters.z;
  const std::uint64_t first = random_bits(order, 0, 0) % count;
  backwards_ = (random_bits(order, 1, 0) & 1) != 0;
  for (std::uint32_t i = 0; i < count && fault_.empty(); ++i) {
    Dim3 index = unfold(static_cast<std::uint32_t>((first + i) % count), clusters);
    index.y *= shape.cluster;
    for (std::uint32_t rank = 0; rank < shape.cluster; ++rank, ++index.y) {
      blocks_[rank].index = index;
      blocks_[rank].number = index.x + shape.grid.x * (index.y + shape.grid.y * index.z);
    }
    run_cluster();
  }
  running_block = nullptr;
  return fault_;
}

void BlockRunner::run_cluster() {
  const auto threads = static_cast<std::uint32_t>(states_.size());
  ++clusters_run_;
  for (Block& block : std::span(blocks_).first(shape_->cluster)) {
    std::memset(block.shared.data(), 0xFF, shape_->shared_bytes);
    block.phase = 0;
    block.votes = {};
    block.known.clear();
    if (num_copies_ > 0) std::ranges::fill(block.copied_by, 0);
  }
  num_copies_ = 0;
  for (Warp& warp : warps_) warp.phase = 0;
  if (std::exchange(has_groups_, false))  // groups of the previous cluster, which may have failed
    for (Copies& copies : copies_) copies.clear();
  arrivals_.assign(threads, 0);
  waits_.assign(threads, 0);
  arrived_ = cluster_phase_ = 0;
  if (shape_->shares()) {
    cluster_copies_.begin(shape_->cluster, threads, shape_->shared_bytes, order_);
    products_.begin(shape_->cluster, num_threads_,
                    !backward_.empty() && std::string_view(kernel_->name).starts_with(backward_));
  }
  std::fill(states_.begin(), states_.end(), State::runs);
  waited_.assign(threads, false);
  for (std::uint32_t i = 0; i < threads; ++i) stacks_.prepare(i, run_thread, this);
  while (run_all() && fault_.empty()) {
    if (counts_ != nullptr)
      for (std::uint32_t warp = 0; warp < threads / kWarp; ++warp) counts_->meet(warp, kernel_->name);
    if (std::ranges::all_of(states_, [](State state) { return state == State::ended; })) return;
    if (!release())
      fault_ = concat("kernel ", kernel_->name, ", block ", text(blocks_[0].index), ": ", stuck());
  }
}

void BlockRunner::run_thread(void* self) {
  auto& runner = *static_cast<BlockRunner*>(self);
  reinterpret_cast<KernelEntry>(const_cast<void*>(runner.kernel_->entry))(runner.args_.data());
  if (!runner.waited_[runner.current_]) runner.fail("ends without waiting for earlier kernels");
  const Copies& copies = runner.copies_[runner.current_];
  if (!copies.open.empty() || !copies.arriving.empty() ||
      std::ranges::any_of(copies.groups, [](const auto& group) { return !group.empty(); }))
    runner.fail("ends with asynchronous copies under way");
  if (runner.arrivals_[runner.current_] != runner.waits_[runner.current_])
    runner.fail("ends without waiting for its cluster, at whose barrier it arrived");
  if (runner.shape_->shares()) {
    std::string fault = runner.products_.end(runner.current_);
    if (fault.empty()) fault = runner.cluster_copies_.end(runner.cluster_thread());
    if (!fault.empty()) runner.fail(fault);
  }
  runner.pause(State::ended);
  CHECK(false);
}

void BlockRunner::go_on_as(std::uint32_t thread) {
  current_ = thread;
  place_ = places_[thread];
}

bool BlockRunner::run_all() {
  bool any = false;
  const auto threads = static_cast<std::uint32_t>(states_.size());
  for (std::uint32_t i = 0; i < threads && fault_.empty(); ++i) {
    const std::uint32_t thread = backwards_ ? threads - 1 - i : i;
    if (states_[thread] != State::runs) continue;
    go_on_as(thread);
    any = true;
    stacks_.enter(current_);
  }
  return any;
}

bool BlockRunner::release() {
  bool any = false;
  for (std::size_t w = 0; w < warps_.size(); ++w) {
    const auto lanes = std::span(states_).subspan(w * kWarp, kWarp);
    if (!std::ranges::all_of(lanes, [](State state) { return state == State::at_warp_barrier; })) continue;
    ++warps_[w].phase;
    std::ranges::fill(lanes, State::runs);
    any = true;
  }
  return any || release_blocks() || (shape_->shares() && release_cluster());
}

bool BlockRunner::release_blocks() {
  bool any = false;
  for (std::uint32_t rank = 0; rank < shape_->cluster; ++rank) {
    if (!std::ranges::all_of(states_of(rank), [](State state) { return state == State::at_block_barrier; }))
      continue;
    Block& block = blocks_[rank];
    ++block.phase;
    if (shape_->shares()) cluster_copies_.meet(rank);
    block.votes[block.phase % 2] = 0;
    std::ranges::fill(states_of(rank), State::runs);
    any = true;
  }
  return any;
}

bool BlockRunner::release_cluster() {
  for (;;) {
    bool any = false;
    for (std::uint32_t i = 0; i < states_.size(); ++i) {
      if (!(states_[i] == State::at_cluster_barrier && arrivals_[i] <= cluster_phase_) &&
          !(states_[i] == State::at_arrivals && cluster_copies_.arrived(i)))
        continue;
      states_[i] = State::runs;
      any = true;
    }
    if (any) return true;
    const auto arrival = cluster_copies_.arrive_one();
    if (!arrival) return false;
    const auto& copy = arrival->copy;
    if (!copy) {
      arrive_with_copies_of(arrival->thread);
      if (!fault_.empty()) return true;
      continue;
    }
    // The source is also read only now, so that an earlier change of it is found.
    go_on_as(copy->thread);
    const std::string wrong =
        fault_of(reinterpret_cast<std::uintptr_t>(copy->from), copy->bytes, AccessKind::read);
    if (!wrong.empty()) {
      fail(wrong);
      return true;
    }
    std::memcpy(blocks_[copy->rank].shared.data() + copy->offset, copy->from, copy->bytes);
  }
}

std::string BlockRunner::stuck() const {
  static constexpr std::pair<State, const char*> kWaits[] = {
      {State::at_warp_barrier, "its warp"},
      {State::at_block_barrier, "its block"},
      {State::at_cluster_barrier, "its cluster"},
      {State::at_arrivals, "copies that do not arrive"}};
  std::string all;
  const auto name = [&](State state, std::string_view verb, std::string_view what) {
    const auto found = std::ranges::find(states_, state);
    if (found == states_.end()) return;
    const auto at = static_cast<std::uint32_t>(found - states_.begin());
    if (!all.empty()) all += ", ";
    all += concat("thread ", at % num_threads_);
    if (shape_->cluster > 1) all += concat(" of block ", text(blocks_[at / num_threads_].index));
    all += concat(verb, what);
  };
  for (const auto& [state, what] : kWaits) name(state, " waits at a barrier of ", what);
  name(State::ended, " has ended", "");
  return all;
}

void BlockRunner::pause(State state) {
  states_[current_] = state;
  stacks_.leave();
}

void BlockRunner::block_barrier() { pause(State::at_block_barrier); }

std::uint32_t BlockRunner::block_count(bool vote) {
  std::uint32_t& votes = block().votes[block().phase % 2];
  votes += vote ? 1 : 0;
  block_barrier();
  return votes;
}

bool BlockRunner::take_ticket(const void* counter, bool last) {
  std::vector<Known>& taken = tickets_[counter];
  if (!last) {
    taken.push_back({block().number, block().phase, 0});
    return false;
  }
  for (const Known& other : taken) block().known.push_back({other.block, other.before, block().phase + 1});
  taken.clear();
  return true;
}

// Only reads that race with a write can be ordered: no record says which threads have read.
bool BlockRunner::knows(const AccessStamp& then) const {
  return then.kind == AccessKind::write && std::ranges::any_of(block().known, [&](const Known& known) {
           return known.block == then.block && then.block_phase < known.before && block().phase >= known.from;
         });
}

const BlockRunner::Lanes& BlockRunner::exchange(std::uint32_t mask, std::uint64_t value) {
  return exchange_words(mask, {&value, 1})[0];
}

const BlockRunner::WordsOfLanes& BlockRunner::exchange_words(std::uint32_t mask,
                                                             std::span<const std::uint64_t> words) {
  if (mask != 0xFFFFFFFFu) refuse("a warp operation with a mask that is not full");
  Warp& warp = warps_[current_ / kWarp];
  WordsOfLanes& lanes = warp.values[warp.phase % 2];
  for (std::size_t i = 0; i < words.size(); ++i) lanes[i][lane()] = words[i];
  pause(State::at_warp_barrier);
  return lanes;
}

void BlockRunner::expect(const std::string& fault) {
  if (fault.empty()) return;
  fail(fault);
  stop();
}

void BlockRunner::cluster_arrive() {
  if (arrivals_[current_] != waits_[current_])
    refuse("arrives at the cluster's barrier without waiting for what it arrived at before");
  ++arrivals_[current_];
  if (++arrived_ < states_.size()) return;
  arrived_ = 0;
  ++cluster_phase_;
}

void BlockRunner::cluster_wait() {
  if (arrivals_[current_] == waits_[current_])
    refuse("waits at the cluster's barrier without having arrived");
  if (arrivals_[current_] > cluster_phase_) pause(State::at_cluster_barrier);
  ++waits_[current_];
}

void BlockRunner::make_arrivals(const void* barrier, std::uint32_t count) {
  if (!shape_->shares()) refuse("a barrier of copies without a cluster");
  expect(cluster_copies_.make(cluster_thread(), in_shared(barrier), count));
}

void BlockRunner::arrive_at(const void* barrier, std::uint32_t rank) {
  expect(cluster_copies_.arrive(cluster_thread(), in_shared(barrier), rank));
}

void BlockRunner::expect_arrivals(const void* barrier, std::uint32_t bytes) {
  expect(cluster_copies_.expect(cluster_thread(), in_shared(barrier), bytes));
}

void BlockRunner::wait_for_arrivals(const void* barrier, std::uint32_t parity) {
  expect(cluster_copies_.wait(cluster_thread(), in_shared(barrier), parity));
  if (!cluster_copies_.arrived(current_)) pause(State::at_arrivals);
  cluster_copies_.see(current_);
}

void BlockRunner::copy_to_cluster(void* to, const void* from, std::uint32_t bytes, const void* barrier,
                                  std::uint32_t ranks) {
  const ClusterCopies::Copy copy = {.from = static_cast<const std::byte*>(from),
                                    .bytes = bytes,
                                    .offset = in_shared(to),
                                    .barrier = in_shared(barrier),
                                    .thread = current_};
  expect(cluster_copies_.start(cluster_thread(), copy, ranks));
  note(from, bytes, AccessKind::read, nullptr);
  for (std::uint32_t rank = 0; rank < shape_->cluster; ++rank)
    if ((ranks >> rank & 1) != 0) std::memset(blocks_[rank].shared.data() + copy.offset, 0xFF, bytes);
}

void BlockRunner::multiply_warpgroup(float* sums, const WarpgroupProducts::Product& product) {
  if (!shape_->shares()) refuse("a product of a warpgroup without a cluster");
  expect(products_.multiply(current_, sums, product, nullptr));
  read_by_product(product.a, WarpgroupProducts::kRows, 2);
  read_by_product(product.b, product.columns, 2);
}

void BlockRunner::multiply_warpgroup(float* sums, const WarpgroupProducts::Product& product,
                                     const WarpgroupProducts::Rows& rows) {
  if (!shape_->shares()) refuse("a product of a warpgroup without a cluster");
  expect(products_.multiply(current_, sums, product, &rows));
  for (std::uint32_t first = 0; first < product.columns; first += WarpgroupProducts::kLineColumns)
    read_by_product(product.b + first / WarpgroupProducts::kLineColumns * product.apart,
                    WarpgroupProducts::kDepth, WarpgroupProducts::kLineBytes / kCopyBytes);
}

void BlockRunner::read_by_product(std::size_t first, std::size_t lines, std::size_t pieces) {
  const ClusterCopies::Thread thread = cluster_thread();
  const std::uint32_t group = products_.group(current_);
  for (std::size_t i = 0; i < pieces * lines; ++i) {
    const std::size_t at = WarpgroupProducts::place(first, i / pieces, i % pieces);
    std::string fault;
    if (at + kCopyBytes > shape_->shared_bytes)
      fault = ", beyond its end";
    else if (num_copies_ > 0 && block().copied_by[at / kCopyBytes] != 0)
      fault = under_way(at, kCopyBytes);
    if (fault.empty()) {
      fault = cluster_copies_.read_by_product(thread, at, kCopyBytes, group);
      if (!fault.empty()) fault = concat(" at offset ", at, " of shared memory, ", fault);
    }
    if (!fault.empty()) expect(concat("a product reads 16 bytes", fault));
  }
}

void BlockRunner::wait_for_products(std::size_t groups_left) {
  const std::uint32_t ended = products_.wait(current_, groups_left, block().shared);
  cluster_copies_.end_products(cluster_thread(), ended);
}

std::string BlockRunner::where() const {
  return concat("kernel ", kernel_->name, ", block ", text(block().index), ", thread ", thread(), ": ");
}

void BlockRunner::fail(const std::string& what) { fault_ = where() + what; }

void BlockRunner::refuse(const char* what) {
  fail(what);
  stop();
}

void BlockRunner::stop() {
  pause(State::ended);
  check_failed("a thread that failed runs on", __FILE_NAME__, __LINE__);
}

void BlockRunner::on_access(std::uintptr_t address, std::size_t size, AccessKind kind, const void* site,
                            std::size_t alignment) {
  if (running_block != nullptr) running_block->access(address, size, kind, site, alignment);
}

void BlockRunner::access(std::uintptr_t address, std::size_t size, AccessKind kind, const void* site,
                         std::size_t alignment) {
  if (stacks_.on_stack(address)) return;
  if (std::string wrong = (address & (alignment - 1)) != 0
                              ? concat(describe_access(kind, size), " at an address that is not aligned")
                              : fault_of(address, size, kind);
      !wrong.empty())
    fail(wrong);
  if (!fault_.empty()) stop();
  if (counts_ == nullptr || site == nullptr) return;
  if (in_shared(address) < kMaxClusterSharedBytes)
    counts_->note(current_ / kWarp, lane(), site, Memory::shared, in_shared(address), size);
  else if (memory_.contains(address))
    counts_->note(current_ / kWarp, lane(), site, Memory::global, address, size);
}

std::string BlockRunner::fault_of(std::uintptr_t address, std::size_t size, AccessKind kind) {
  const AccessStamp now = {.launch = launch_,
                           .block = block().number,
                           .block_phase = block().phase,
                           .warp_phase = warps_[current_ / kWarp].phase,
                           .thread = static_cast<std::uint16_t>(thread()),
                           .kind = kind};
  if (!waited_[current_] &&
      (windows_.contains(address) ||
       (memory_.contains(address) && (kind != AccessKind::read || !memory_.is_constant(address)))))
    return concat(describe_access(kind, size), " of the device before it waits for earlier kernels");
  if (memory_.contains(address)) {
    if (block().known.empty()) return memory_.access(address, size, now);
    return memory_.access(address, size, now, [this](const AccessStamp& then) { return knows(then); });
  }
  if (const std::size_t offset = in_shared(address); offset < kMaxClusterSharedBytes) {
    if (offset + size > shape_->shared_bytes)
      return concat(describe_access(kind, size), " at offset ", offset, " of the block's ",
                    shape_->shared_bytes, " bytes of shared memory");
    if (num_copies_ > 0)
      if (const std::string copy = under_way(offset, size); !copy.empty())
        return describe_access(kind, size) + copy;
    if (shape_->shares())
      if (const std::string copy =
              cluster_copies_.touch(cluster_thread(), offset, size, kind != AccessKind::read);
          !copy.empty())
        return concat(describe_access(kind, size), " at offset ", offset, " of shared memory, ", copy);
    AccessStamp of_block = now;
    of_block.launch = clusters_run_;  // each block has its own shared memory
    AccessShadow::IsKnown known;
    if (shape_->shares()) {
      of_block.clock = cluster_copies_.clock(current_);
      known = [this](const AccessStamp& then) {
        return cluster_copies_.knows(current_, rank() * num_threads_ + then.thread, then.clock,
                                     then.warp_phase);
      };
    }
    const auto race = block().shadow.note(offset, size, of_block, known);
    if (!race) return {};
    return concat(describe_access(kind, size), " at offset ", offset,
                  " of shared memory in a race with thread ", race->thread, ", which ",
                  race->kind == AccessKind::read ? "reads" : "writes", " them");
  }
  if (windows_.contains(address)) {
    const std::string fault = windows_.fault(address, size);
    return fault.empty() ? fault : concat(describe_access(kind, size), " ", fault);
  }
  const std::size_t in_args = address - reinterpret_cast<std::uintptr_t>(args_.data());
  if (kind == AccessKind::read && in_args < args_.size() && size <= args_.size() - in_args) return {};
  return concat(describe_access(kind, size), " of memory that is not the device's");
}

}  // namespace pagoda::device::emulated
