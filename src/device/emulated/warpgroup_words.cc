#include "device/emulated/warpgroup_words.h"

#include <bit>

#include "device/emulated/block_runner.h"

namespace pagoda::device::emulated {

void show_writes() { BlockRunner::running().show_writes(); }
void fence_products(float* sums, std::size_t count) { BlockRunner::running().fence_products(sums, count); }
void multiply_warpgroup(float* sums, std::uint32_t columns, bool adds, const void* a, const void* b) {
  BlockRunner& runner = BlockRunner::running();
  runner.multiply_warpgroup(
      sums,
      {.a = runner.place_in_shared(a), .b = runner.place_in_shared(b), .columns = columns, .adds = adds});
}
void multiply_warpgroup_floats8(float* sums, std::uint32_t columns, bool adds, const void* a, const void* b) {
  BlockRunner& runner = BlockRunner::running();
  runner.multiply_warpgroup(sums, {.a = runner.place_in_shared(a),
                                   .b = runner.place_in_shared(b),
                                   .columns = columns,
                                   .adds = adds,
                                   .floats8 = true});
}
// The lanes of a row have two neighbours of k each, in its first half and in its second half.
void multiply_warpgroup(float* sums, std::uint32_t columns, bool adds, const std::uint32_t (&a)[4],
                        const void* b, std::size_t apart) {
  BlockRunner& runner = BlockRunner::running();
  const auto both = [](std::uint32_t low, std::uint32_t high) { return std::uint64_t{high} << 32 | low; };
  const std::uint64_t mine[] = {both(a[0], a[1]), both(a[2], a[3])};
  const BlockRunner::WordsOfLanes& words = runner.exchange_words(~0u, mine);
  const std::size_t first = runner.lane() / 4 * 4;
  WarpgroupProducts::Rows rows;
  for (std::size_t half = 0; half < 2; ++half)
    for (std::size_t k = 0; k < WarpgroupProducts::kDepth; ++k) {
      const std::uint64_t pairs = words[k / 8][first + k % 8 / 2] >> (32 * half);
      rows[half][k] = std::bit_cast<float>(static_cast<std::uint32_t>(pairs >> (16 * (k % 2))) << 16);
    }
  runner.multiply_warpgroup(
      sums, {.b = runner.place_in_shared(b), .columns = columns, .adds = adds, .apart = apart}, rows);
}
void commit_products() { BlockRunner::running().commit_products(); }
void wait_for_products(std::size_t groups_left) { BlockRunner::running().wait_for_products(groups_left); }

}  // namespace pagoda::device::emulated
