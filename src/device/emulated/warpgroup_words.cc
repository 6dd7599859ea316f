#include "device/emulated/warpgroup_words.h"

#include "device/emulated/block_runner.h"

namespace pagoda::device::emulated {

void show_writes() { BlockRunner::running().show_writes(); }
void fence_products(float* sums, std::size_t count) { BlockRunner::running().fence_products(sums, count); }
void multiply_warpgroup(float* sums, std::uint32_t columns, const void* a, const void* b) {
  BlockRunner::running().multiply_warpgroup(sums, columns, a, b);
}
void commit_products() { BlockRunner::running().commit_products(); }
void wait_for_products(std::size_t groups_left) { BlockRunner::running().wait_for_products(groups_left); }

}  // namespace pagoda::device::emulated
