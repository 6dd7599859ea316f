#include "device/emulated/tile_words.h"

#include <array>
#include <bit>
#include <cstring>

#include "device/emulated/block_runner.h"
#include "device/emulated/fused_sums.h"

namespace pagoda::device::emulated {
namespace {

using Words = BlockRunner::WordsOfLanes;

// Element `index` of the two in a register.
float element(std::uint64_t pair, std::size_t index) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(pair >> (16 * index)) << 16);
}

// Register `index` of a lane; a word holds two.
std::uint64_t reg(const Words& words, std::size_t index, std::size_t lane) {
  return words[index / 2][lane] >> (32 * (index % 2)) & 0xFFFFFFFFu;
}

using WarpLine = std::array<float, 16>;  // k ascending

// Registers 0 and 1: rows 0 to 7 and 8 to 15; 2 and 3: the same rows, k from 8 on.
WarpLine row_of_a(const Words& words, std::size_t row) {
  WarpLine line;
  for (std::size_t k = 0; k < line.size(); ++k)
    line[k] = element(reg(words, row / 8 + 2 * (k / 8), row % 8 * 4 + k % 8 / 2), k % 2);
  return line;
}
WarpLine column_of_b(const Words& words, std::size_t column) {
  WarpLine line;
  for (std::size_t k = 0; k < line.size(); ++k)
    line[k] = element(reg(words, 4 + k / 8, column * 4 + k % 8 / 2), k % 2);
  return line;
}

}  // namespace

void copy_async(void* to, const void* from, std::size_t taken) {
  BlockRunner::running().start_copy(to, from, taken, __builtin_return_address(0));
}
void copies_commit() { BlockRunner::running().commit_copies(); }
void copies_wait(std::size_t groups_left) { BlockRunner::running().wait_for_copies(groups_left); }

void load_whole(void* to, const void* from, std::size_t size) {
  BlockRunner& runner = BlockRunner::running();
  if (reinterpret_cast<std::uintptr_t>(from) % size != 0) runner.refuse("a load that is not aligned");
  runner.note(from, size, AccessKind::read, __builtin_return_address(0));
  std::memcpy(to, from, size);
}
void store_whole(void* to, const void* from, std::size_t size) {
  BlockRunner& runner = BlockRunner::running();
  if (reinterpret_cast<std::uintptr_t>(to) % size != 0) runner.refuse("a store that is not aligned");
  runner.note(to, size, AccessKind::write, __builtin_return_address(0));
  std::memcpy(to, from, size);
}

void load_matrices(const void* row, bool transposed, std::uint32_t (&out)[4]) {
  BlockRunner& runner = BlockRunner::running();
  if (reinterpret_cast<std::uintptr_t>(row) % BlockRunner::kCopyBytes != 0)
    runner.refuse("a row of a matrix that is not aligned to 16 bytes");
  runner.note(row, 16, AccessKind::read, __builtin_return_address(0));
  std::uint64_t words[2];
  std::memcpy(words, row, sizeof words);
  const Words& rows = runner.exchange_words(~0u, words);
  const std::size_t lane = runner.lane();
  const auto bits = [&](std::size_t matrix, std::size_t r, std::size_t column) {
    return static_cast<std::uint32_t>(rows[column / 4][8 * matrix + r] >> (16 * (column % 4)) & 0xFFFFu);
  };
  for (std::size_t m = 0; m < 4; ++m) {
    const std::size_t line = lane / 4, first = lane % 4 * 2;
    out[m] = transposed ? bits(m, first, line) | bits(m, first + 1, line) << 16
                        : bits(m, line, first) | bits(m, line, first + 1) << 16;
  }
}

void multiply_matrices(float (&sums)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  BlockRunner& runner = BlockRunner::running();
  const auto both = [](std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; };
  const std::uint64_t mine[] = {both(a[0], a[1]), both(a[2], a[3]), both(b[0], b[1])};
  const Words& words = runner.exchange_words(~0u, mine);
  const std::size_t lane = runner.lane();
  const WarpLine rows[] = {row_of_a(words, lane / 4), row_of_a(words, lane / 4 + 8)};
  const WarpLine columns[] = {column_of_b(words, lane % 4 * 2), column_of_b(words, lane % 4 * 2 + 1)};
  for (std::size_t i = 0; i < 4; ++i) sums[i] = add_products(sums[i], rows[i / 2], columns[i % 2]);
}

}  // namespace pagoda::device::emulated
