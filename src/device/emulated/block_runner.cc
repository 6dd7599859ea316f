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

BlockRunner::BlockRunner(DeviceMemory& memory, AccessCounts* counts)
    : memory_(memory),
      counts_(counts),
      stacks_(kMaxBlockThreads),
      shared_(kMaxSharedBytes),
      shared_shadow_(kMaxSharedBytes),
      copies_(kMaxBlockThreads),
      copied_by_(kMaxSharedBytes / kCopyBytes) {}

BlockRunner& BlockRunner::running() {
  CHECK(running_block != nullptr);
  return *running_block;
}

Dim3 BlockRunner::thread_index() const { return unfold(current_, shape_->block); }

std::string BlockRunner::run(const Kernel& kernel, const LaunchShape& shape, std::span<const std::byte> args,
                             std::uint64_t order) {
  kernel_ = &kernel;
  shape_ = &shape;
  args_ = args;
  ++launch_;
  num_threads_ = shape.block.x * shape.block.y * shape.block.z;
  states_.resize(num_threads_);
  warps_.resize(num_threads_ / kWarp);
  fault_.clear();
  running_block = this;
  const std::uint32_t blocks = shape.grid.x * shape.grid.y * shape.grid.z;
  const std::uint64_t first = random_bits(order, 0, 0) % blocks;
  backwards_ = (random_bits(order, 1, 0) & 1) != 0;
  for (std::uint32_t i = 0; i < blocks && fault_.empty(); ++i) {
    block_number_ = static_cast<std::uint32_t>((first + i) % blocks);
    block_ = unfold(block_number_, shape.grid);
    run_block();
  }
  running_block = nullptr;
  return fault_;
}

void BlockRunner::run_block() {
  std::memset(shared_.data(), 0xFF, shape_->shared_bytes);
  ++blocks_run_;
  block_phase_ = 0;
  votes_ = {};
  for (Warp& warp : warps_) warp.phase = 0;
  if (std::exchange(has_groups_, false))  // groups of the block before, which may have failed
    for (Copies& copies : copies_) copies = {};
  if (num_copies_ > 0) std::ranges::fill(copied_by_, 0);
  num_copies_ = 0;
  std::fill(states_.begin(), states_.end(), State::runs);
  for (std::uint32_t i = 0; i < num_threads_; ++i) stacks_.prepare(i, run_thread, this);
  while (run_all() && fault_.empty()) {
    if (counts_ != nullptr)
      for (std::uint32_t warp = 0; warp < num_threads_ / kWarp; ++warp) counts_->meet(warp, kernel_->name);
    if (std::ranges::all_of(states_, [](State state) { return state == State::ended; })) return;
    if (!release()) fault_ = concat("kernel ", kernel_->name, ", block ", text(block_), ": ", stuck());
  }
}

void BlockRunner::run_thread(void* self) {
  auto& runner = *static_cast<BlockRunner*>(self);
  reinterpret_cast<KernelEntry>(const_cast<void*>(runner.kernel_->entry))(runner.args_.data());
  const Copies& copies = runner.copies_[runner.current_];
  if (!copies.open.empty() ||
      std::ranges::any_of(copies.groups, [](const auto& group) { return !group.empty(); }))
    runner.fail("ends with asynchronous copies under way");
  runner.pause(State::ended);
  CHECK(false);
}

bool BlockRunner::run_all() {
  bool any = false;
  for (std::uint32_t i = 0; i < num_threads_ && fault_.empty(); ++i) {
    current_ = backwards_ ? num_threads_ - 1 - i : i;
    if (states_[current_] != State::runs) continue;
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
  if (any) return true;
  if (!std::ranges::all_of(states_, [](State state) { return state == State::at_block_barrier; }))
    return false;
  ++block_phase_;
  votes_[block_phase_ % 2] = 0;
  std::ranges::fill(states_, State::runs);
  return true;
}

std::string BlockRunner::stuck() const {
  const auto first = [&](State state) { return std::ranges::find(states_, state) - states_.begin(); };
  const auto at = [&](State state) { return first(state) < std::ssize(states_); };
  const bool warp = at(State::at_warp_barrier), block = at(State::at_block_barrier);
  if (warp && block)
    return concat("thread ", first(State::at_block_barrier), " waits at a barrier of the block, thread ",
                  first(State::at_warp_barrier), " at one of its warp");
  return concat("thread ", first(warp ? State::at_warp_barrier : State::at_block_barrier),
                " waits at a barrier that thread ", first(State::ended), " never reached");
}

void BlockRunner::pause(State state) {
  states_[current_] = state;
  stacks_.leave();
}

void BlockRunner::block_barrier() { pause(State::at_block_barrier); }

std::uint32_t BlockRunner::block_count(bool vote) {
  std::uint32_t& votes = votes_[block_phase_ % 2];
  votes += vote ? 1 : 0;
  block_barrier();
  return votes;
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

std::size_t BlockRunner::place_of(const Copy& copy) const {
  return static_cast<std::size_t>(copy.to - shared_.data()) / kCopyBytes;
}

void BlockRunner::start_copy(void* to, const void* from, std::size_t taken, const void* site) {
  const Copy copy = {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), taken};
  const auto offset = reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(shared_.data());
  if (offset >= shared_.size()) refuse("an asynchronous copy into what is not shared memory");
  if (offset % kCopyBytes != 0 || reinterpret_cast<std::uintptr_t>(from) % kCopyBytes != 0)
    refuse("an asynchronous copy that is not aligned to 16 bytes");
  note(copy.to, kCopyBytes, AccessKind::write, site);
  // Another key than the one above: an instruction with an access of each memory.
  if (taken > 0) note(copy.from, taken, AccessKind::read, static_cast<const char*>(site) + 1);
  std::memset(copy.to, 0xFF, kCopyBytes);
  copied_by_[place_of(copy)] = static_cast<std::uint16_t>(current_ + 1);
  ++num_copies_;
  has_groups_ = true;
  copies_[current_].open.push_back(copy);
}

void BlockRunner::commit_copies() {
  has_groups_ = true;
  Copies& copies = copies_[current_];
  copies.groups.push_back(std::move(copies.open));
  copies.open.clear();
}

void BlockRunner::wait_for_copies(std::size_t groups_left) {
  std::vector<std::vector<Copy>>& groups = copies_[current_].groups;
  while (groups.size() > groups_left) {
    for (const Copy& copy : groups.front()) finish(copy);
    groups.erase(groups.begin());
  }
}

// The source is read now, too: who changes it before is found.
void BlockRunner::finish(const Copy& copy) {
  copied_by_[place_of(copy)] = 0;
  --num_copies_;
  note(copy.to, kCopyBytes, AccessKind::write, nullptr);
  if (copy.taken > 0) note(copy.from, copy.taken, AccessKind::read, nullptr);
  std::memset(copy.to, 0, kCopyBytes);
  if (copy.taken > 0) std::memcpy(copy.to, copy.from, copy.taken);
}

// The threads that have a copy under way into these bytes of shared memory.
std::string BlockRunner::under_way(std::size_t in_shared, std::size_t size) const {
  for (std::size_t at = in_shared / kCopyBytes; at <= (in_shared + size - 1) / kCopyBytes; ++at)
    if (copied_by_[at] != 0)
      return concat(" at offset ", in_shared, " of shared memory, which a copy of thread ",
                    copied_by_[at] - 1, " may still write");
  return {};
}

std::string BlockRunner::where() const {
  return concat("kernel ", kernel_->name, ", block ", text(block_), ", thread ", current_, ": ");
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

void BlockRunner::on_access(std::uintptr_t address, std::size_t size, AccessKind kind, const void* site) {
  if (running_block != nullptr) running_block->access(address, size, kind, site);
}

void BlockRunner::access(std::uintptr_t address, std::size_t size, AccessKind kind, const void* site) {
  if (stacks_.on_stack(address)) return;
  if (std::string wrong = fault_of(address, size, kind); !wrong.empty()) fail(wrong);
  if (!fault_.empty()) stop();
  if (counts_ == nullptr || site == nullptr) return;
  const std::uintptr_t in_shared = address - reinterpret_cast<std::uintptr_t>(shared_.data());
  if (in_shared < shared_.size())
    counts_->note(current_ / kWarp, lane(), site, Memory::shared, in_shared, size);
  else if (memory_.contains(address))
    counts_->note(current_ / kWarp, lane(), site, Memory::global, address, size);
}

std::string BlockRunner::fault_of(std::uintptr_t address, std::size_t size, AccessKind kind) {
  const AccessStamp now = {.launch = launch_,
                           .block = block_number_,
                           .block_phase = block_phase_,
                           .warp_phase = warps_[current_ / kWarp].phase,
                           .thread = static_cast<std::uint16_t>(current_),
                           .kind = kind};
  if (memory_.contains(address)) return memory_.access(address, size, now);
  const std::size_t in_shared = address - reinterpret_cast<std::uintptr_t>(shared_.data());
  if (in_shared < shared_.size()) {
    if (in_shared + size > shape_->shared_bytes)
      return concat(describe_access(kind, size), " at offset ", in_shared, " of the block's ",
                    shape_->shared_bytes, " bytes of shared memory");
    if (num_copies_ > 0)
      if (const std::string copy = under_way(in_shared, size); !copy.empty())
        return describe_access(kind, size) + copy;
    AccessStamp of_block = now;
    of_block.launch = blocks_run_;  // each block has shared memory of its own
    const auto race = shared_shadow_.note(in_shared, size, of_block);
    if (!race) return {};
    return concat(describe_access(kind, size), " at offset ", in_shared,
                  " of shared memory in a race with thread ", race->thread, ", which ",
                  race->kind == AccessKind::read ? "reads" : "writes", " them");
  }
  const std::size_t in_args = address - reinterpret_cast<std::uintptr_t>(args_.data());
  if (kind == AccessKind::read && in_args < args_.size() && size <= args_.size() - in_args) return {};
  return concat(describe_access(kind, size), " of memory that is not the device's");
}

}  // namespace pagoda::device::emulated
