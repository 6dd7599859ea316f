#include "device/emulated/cuda_on_host.h"

#include <algorithm>
#include <utility>

#include "device/emulated/block_runner.h"

namespace pagoda::device::emulated {

Dim3 thread_index() { return BlockRunner::running().thread_index(); }
Dim3 block_index() { return BlockRunner::running().block_index(); }
Dim3 block_size() { return BlockRunner::running().shape().block; }
Dim3 grid_size() { return BlockRunner::running().shape().grid; }
void* shared_memory() { return BlockRunner::running().shared(); }
void wait_for_earlier() { BlockRunner::running().wait_for_earlier(); }
void block_barrier() { BlockRunner::running().block_barrier(); }
std::uint32_t block_count(bool vote) { return BlockRunner::running().block_count(vote); }

std::uint64_t from_lane(std::uint32_t mask, std::uint64_t value, std::uint32_t lane) {
  return BlockRunner::running().exchange(mask, value)[lane % kWarp];
}

std::uint64_t from_lane_xor(std::uint32_t mask, std::uint64_t value, std::uint32_t other) {
  BlockRunner& runner = BlockRunner::running();
  return runner.exchange(mask, value)[(runner.lane() ^ other) % kWarp];
}

std::uint64_t from_lane_up(std::uint32_t mask, std::uint64_t value, std::uint32_t distance) {
  BlockRunner& runner = BlockRunner::running();
  const std::uint64_t from = runner.exchange(mask, value)[(runner.lane() - distance) % kWarp];
  return runner.lane() >= distance ? from : value;
}

std::uint32_t ballot(std::uint32_t mask, bool vote) {
  const BlockRunner::Lanes& lanes = BlockRunner::running().exchange(mask, vote ? 1 : 0);
  std::uint32_t bits = 0;
  for (std::uint32_t i = 0; i < kWarp; ++i) bits |= static_cast<std::uint32_t>(lanes[i]) << i;
  return bits;
}

std::uint32_t atomic_add(std::uint32_t* address, std::uint32_t value) {
  BlockRunner::running().note(address, sizeof *address, AccessKind::atomic, nullptr);
  return std::exchange(*address, *address + value);
}

unsigned long long atomic_add(unsigned long long* address, unsigned long long value) {
  BlockRunner::running().note(address, sizeof *address, AccessKind::atomic, nullptr);
  return std::exchange(*address, *address + value);
}

std::uint32_t atomic_or(std::uint32_t* address, std::uint32_t value) {
  BlockRunner::running().note(address, sizeof *address, AccessKind::atomic, nullptr);
  return std::exchange(*address, *address | value);
}

std::uint32_t atomic_max(std::uint32_t* address, std::uint32_t value) {
  BlockRunner::running().note(address, sizeof *address, AccessKind::atomic, nullptr);
  return std::exchange(*address, std::max(*address, value));
}

}  // namespace pagoda::device::emulated
