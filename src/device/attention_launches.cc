// Launches for keys and values: the write to the cache, and attention in every form.
#include "device/kernel_launches.h"
#include "device/kernels/launch_shapes.h"
#include "device/launch_sizes.h"

namespace pagoda::device {
namespace {

static_assert(fits(walk_shared_bytes(256, kMaxHeadGroup)) && fits(walk_shared_bytes(64, kMaxHeadGroup)) &&
              fits(eight_walk_bytes(64, kMaxHeadGroup)) && fits(eight_walk_bytes(128, kMaxHeadGroup)) &&
              fits(eight_walk_bytes(256, kMaxHeadGroup)) && fits(eight_tile_bytes(256)) &&
              fits(tile_splits_bytes(64)) && fits(tile_splits_bytes(128)) && fits(tile_splits_bytes(256)));
static_assert(fits(merge_shared_bytes(kMaxHeadGroup, kMaxHeadSize, 1)) &&
              merge_shared_bytes(kMaxHeadGroup, 64, 1) <= 4 * eight_shared_bytes(64) &&
              merge_shared_bytes(kMaxHeadGroup, 128, 1) <= 2 * eight_shared_bytes(128) &&
              merge_shared_bytes(kMaxHeadGroup, 256, 1) <= eight_shared_bytes(256));

// The kernel for a cache's element type: they are consecutive in kernels.def.
KernelId for_cache(Element cache, KernelId of_f32) {
  return static_cast<KernelId>(static_cast<std::int32_t>(of_f32) + place_of_cache(cache));
}
// Likewise for kernels by tiles, which have no f32.
KernelId for_cache(Element cache, KernelId of_bf16, KernelId of_i8, KernelId of_fp8) {
  return cache == Element::bf16 ? of_bf16 : cache == Element::i8 ? of_i8 : of_fp8;
}
bool has_eights(Element cache) { return cache != Element::bf16; }

std::int32_t padded(std::int32_t head_size) { return head_size > 128 ? 256 : head_size > 64 ? 128 : 64; }

// Kernels for heads of up to 64, 128 and 256, which are `apart` from each other in kernels.def.
KernelId tile_kernel(KernelId of_64, std::int32_t head_size, std::int32_t apart = 1) {
  const std::int32_t which = head_size > 128 ? 2 : head_size > 64 ? 1 : 0;
  return static_cast<KernelId>(static_cast<std::int32_t>(of_64) + apart * which);
}

}  // namespace

Status KernelLaunches::rope_and_write(Element cache, const RopeAndWriteArgs& args, std::int64_t rows) {
  const KernelId id = for_cache(cache, KernelId::rope_and_write_f32);
  const std::int32_t heads = args.num_query_heads + 2 * args.cache.num_kv_heads;
  return put(id, {u32(rows), u32((heads + kRopeWarps - 1) / kRopeWarps)}, {kWarp * u32(kRopeWarps)}, 0, args);
}

Status KernelLaunches::attend_splits(Element cache, const AttentionArgs& args, std::int64_t rows) {
  CHECK(args.write.qkv == nullptr);
  const KernelId id = for_cache(cache, KernelId::attend_splits_f32);
  const std::uint32_t kv_heads = u32(args.cache.num_kv_heads), heads = u32(args.num_query_heads);
  const std::int32_t group = args.num_query_heads / args.cache.num_kv_heads, size = args.cache.head_size;
  return put(id, {u32(rows), kv_heads, u32(args.splits)}, {kWarp * heads / kv_heads},
             merge_shared_bytes(group, size, merged_at_once(kPlainMergeBytes, group, size)), args);
}

Status KernelLaunches::attend_rows(Element cache, const AttentionArgs& args, std::int64_t rows) {
  const KernelId id = for_cache(cache, KernelId::attend_rows_f32);
  const std::uint32_t kv_heads = u32(args.cache.num_kv_heads);
  return put(id, {u32(rows), kv_heads}, {kWarp * u32(args.num_query_heads) / kv_heads}, 0, args);
}

bool KernelLaunches::walks(const AttentionArgs& args, std::int64_t rows) {
  const std::int64_t longest = rows * args.splits;
  return rows * args.cache.num_kv_heads >= kWalkBlocks &&
         2 * (args.all_splits == 0 ? longest : args.all_splits) >= longest;
}

bool KernelLaunches::finishes_own_heads(Element cache, std::int32_t head_size) {
  return finishes_heads(padded(head_size), has_eights(cache));
}

Status KernelLaunches::attend_tile_walk(const AttentionArgs& args, std::int64_t rows, Element cache) {
  const std::int32_t size = args.cache.head_size, kv = args.cache.num_kv_heads;
  const KernelId of_64 = for_cache(cache, KernelId::attend_tile_walk_64, KernelId::attend_tile_walk_64_i8,
                                   KernelId::attend_tile_walk_64_fp8);
  const std::int32_t group = args.num_query_heads / kv, padding = padded(size);
  CHECK(args.write.qkv == nullptr || finishes_own_heads(cache, size));
  return put(tile_kernel(of_64, size), {u32(rows), u32(kv)}, {kWarp * kTileWarps},
             has_eights(cache) ? eight_walk_bytes(padding, group) : walk_shared_bytes(padding, group), args);
}

Status KernelLaunches::attend_tile_splits(const AttentionArgs& args, std::int64_t rows, Element cache) {
  const std::int32_t size = args.cache.head_size;
  const KernelId of_64 = for_cache(cache, KernelId::attend_tile_splits_64, KernelId::attend_tile_splits_64_i8,
                                   KernelId::attend_tile_splits_64_fp8);
  const std::uint32_t warps = u32(split_warps(padded(size)));
  CHECK(args.write.qkv == nullptr || finishes_own_heads(cache, size));
  return put(tile_kernel(of_64, size, 2),
             {u32(rows), u32(args.cache.num_kv_heads), (u32(args.splits) + warps - 1) / warps},
             {kWarp * warps},
             has_eights(cache) ? eight_splits_bytes(padded(size)) : tile_splits_bytes(padded(size)), args);
}

Status KernelLaunches::attend_tiles(const AttentionArgs& args, std::int64_t tiles, Element cache) {
  const std::int32_t size = args.cache.head_size;
  const KernelId of_64 = for_cache(cache, KernelId::attend_tiles_64, KernelId::attend_tiles_64_i8,
                                   KernelId::attend_tiles_64_fp8);
  return put(tile_kernel(of_64, size, 2), {u32(tiles), u32(args.cache.num_kv_heads)}, {kWarp * kTileWarps},
             has_eights(cache) ? eight_tile_bytes(padded(size)) : tile_shared_bytes(padded(size)), args);
}

bool KernelLaunches::supports_tiles_over(Element cache, const CacheArgs& args) {
  if (cache == Element::i8 || cache == Element::fp8)
    return args.head_size % 16 == 0 && (cache == Element::fp8 || args.block_size % 4 == 0) &&
           (args.block_elements | args.layer_offset) % 16 == 0;
  return cache == Element::bf16 && (args.block_elements | args.layer_offset) % 8 == 0;
}

std::int32_t KernelLaunches::rows_of_tile(std::int32_t query_heads, std::int32_t kv_heads,
                                          std::int32_t head_size) {
  return tile_rows(padded(head_size)) / (query_heads / kv_heads);
}

Status KernelLaunches::attend_bulk(const AttentionArgs& args, std::int64_t tiles, Element cache) {
  if (tiles == 0) return ok_status();
  const std::int32_t size = args.cache.head_size;
  CHECK(supports_bulk_attention(args.cache) && supports_tiles_over(cache, args.cache));
  return put(tile_kernel(for_cache(cache, KernelId::attend_bulk_64, KernelId::attend_bulk_64_i8,
                                   KernelId::attend_bulk_64_fp8),
                         size),
             {.grid = {u32(args.cache.num_kv_heads), u32(tiles)},
              .block = {u32(kBulkThreads)},
              .shared_bytes = bulk_attention_bytes(size, has_eights(cache)),
              .warpgroups = true},
             args);
}

// The block's threads look up eight tokens at once, and copy lines of 128 bytes.
bool KernelLaunches::supports_bulk_attention(const CacheArgs& cache) const {
  return device_.has_warpgroups() && (cache.head_size == 64 || cache.head_size == 128) &&
         cache.block_size % 8 == 0;
}

bool KernelLaunches::prefers_bulk_attention() { return choices::bulk_attention != 0; }

std::int32_t KernelLaunches::bulk_rows_of_tile(std::int32_t query_heads, std::int32_t kv_heads) {
  return kBulkAttentionRows / (query_heads / kv_heads);
}

}  // namespace pagoda::device
