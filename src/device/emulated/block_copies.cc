// BlockRunner's asynchronous copies (cp.async): each is executed when its thread waits for it, or when no
// thread can run before it arrives.
#include <cstring>
#include <utility>

#include "base/strings.h"
#include "device/emulated/block_runner.h"

namespace pagoda::device::emulated {

void BlockRunner::arrive_with_copies_of(std::uint32_t thread) {
  go_on_as(thread);
  for (const Copy& copy : copies_[thread].arriving.front()) {
    if (const std::string fault = end(copy); !fault.empty()) return fail(fault);
  }
  copies_[thread].arriving.pop_front();
  if (const std::string fault = cluster_copies_.end_later(thread); !fault.empty()) fail(fault);
}

std::size_t BlockRunner::place_of(const Copy& copy) const { return in_shared(copy.to) / kCopyBytes; }

void BlockRunner::start_copy(void* to, const void* from, std::size_t taken, const void* site) {
  const Copy copy = {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), taken};
  const std::size_t offset = in_shared(to);
  if (offset >= kMaxClusterSharedBytes) refuse("an asynchronous copy into what is not shared memory");
  if (offset % kCopyBytes != 0 || reinterpret_cast<std::uintptr_t>(from) % kCopyBytes != 0)
    refuse("an asynchronous copy that is not aligned to 16 bytes");
  note(copy.to, kCopyBytes, AccessKind::write, site);
  // A different key from the one above: one instruction accesses each memory.
  if (taken > 0) note(copy.from, taken, AccessKind::read, static_cast<const char*>(site) + 1);
  std::memset(copy.to, 0xFF, kCopyBytes);
  block().copied_by[place_of(copy)] = static_cast<std::uint16_t>(thread() + 1);
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
    for (const Copy& copy : groups.front()) expect(end(copy));
    groups.erase(groups.begin());
  }
}

void BlockRunner::arrive_with_copies(const void* barrier) {
  expect(cluster_copies_.arrive_later(cluster_thread(), in_shared(barrier)));
  has_groups_ = true;
  Copies& copies = copies_[current_];
  std::vector<Copy>& all = copies.arriving.emplace_back();
  for (const auto& group : copies.groups) all.insert(all.end(), group.begin(), group.end());
  all.insert(all.end(), copies.open.begin(), copies.open.end());
  copies.groups.clear();
  copies.open.clear();
}

// The source is also read only now, so that an earlier change of it is found.
std::string BlockRunner::end(const Copy& copy) {
  block().copied_by[place_of(copy)] = 0;
  --num_copies_;
  std::string fault = fault_of(reinterpret_cast<std::uintptr_t>(copy.to), kCopyBytes, AccessKind::write);
  if (fault.empty() && copy.taken > 0)
    fault = fault_of(reinterpret_cast<std::uintptr_t>(copy.from), copy.taken, AccessKind::read);
  if (!fault.empty()) return fault;
  std::memset(copy.to, 0, kCopyBytes);
  if (copy.taken > 0) std::memcpy(copy.to, copy.from, copy.taken);
  return {};
}

// Names the threads that have a copy in flight into these bytes of shared memory.
std::string BlockRunner::under_way(std::size_t offset, std::size_t size) const {
  const std::vector<std::uint16_t>& copied_by = block().copied_by;
  for (std::size_t at = offset / kCopyBytes; at <= (offset + size - 1) / kCopyBytes; ++at)
    if (copied_by[at] != 0)
      return concat(" at offset ", offset, " of shared memory, which a copy of thread ", copied_by[at] - 1,
                    " may still write");
  return {};
}

}  // namespace pagoda::device::emulated
