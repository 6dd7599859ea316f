// Access to the cache for paged attention: writes new K and V, and finds groups of 16 tokens through the
// block table.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/scratch.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {
namespace {

// Writes element d of a row to address.key(slot, d) and address.value(slot, d). Latent: writes no value.
template <class Element>
void scatter_row(const AttentionCall& call, std::int32_t slot, const Element* key, const Element* value,
                 std::byte* keys, std::byte* values) {
  const KvAddress& address = call.address;
  const std::int32_t d_count = call.args.layout.head_size;
  auto* k = reinterpret_cast<Element*>(keys + address.key(slot, 0));
  constexpr std::int32_t kPacked = 4 / sizeof(Element);
  if (!address.grouped) {
    std::copy(key, key + d_count, k);
  } else if (address.packed == 1) {
    for (std::int32_t d = 0; d < d_count; ++d) k[d * kTokenGroup] = key[d];
  } else {
    // Writes whole packs: the converted row is padded with zeros.
    for (std::int32_t d = 0; d < d_count; d += kPacked) std::memcpy(k + d * kTokenGroup, key + d, 4);
  }
  if (address.latent) return;
  auto* v = reinterpret_cast<Element*>(values + address.value(slot, 0));
  if (!address.grouped || address.packed == 1) {
    std::copy(value, value + d_count, v);
  } else {
    for (std::int32_t d = 0; d < d_count; ++d) v[kPacked * d] = value[d];
  }
}

// Copies tokens [first, last) of group `group` to group layout with padded width; the rest is zero.
void gather_group(const AttentionCall& call, const AttentionSequence& sequence, std::int32_t kv_head,
                  std::int32_t group, std::int32_t first, std::int32_t last, std::byte* keys,
                  std::byte* values) {
  const KvAddress &from = call.address, &to = call.group_address, &to_value = call.value_address;
  std::memset(keys, 0, static_cast<std::size_t>(to.head_bytes));
  std::memset(values, 0, static_cast<std::size_t>(to_value.head_bytes));
  const std::int32_t size = call.args.layout.block_size;
  const auto element = static_cast<std::size_t>(from.element);
  for (std::int32_t t = 0; t < kTokenGroup; ++t) {
    const std::int32_t position = group * kTokenGroup + t, slot = position % size;
    if (position < first || position >= last) continue;
    const std::byte* block = call.block(sequence, position);
    const std::byte* key = block + from.key_piece(call.args.layer, kv_head);
    const std::byte* value = block + from.value_piece(call.args.layer, kv_head);
    for (std::int32_t d = 0; d < call.args.layout.head_size; ++d)
      std::memcpy(keys + to.key(t, d), key + from.key(slot, d), element);
    for (std::int32_t d = 0; d < call.args.layout.value_size(); ++d)
      std::memcpy(values + to_value.value(t, d), value + from.value(slot, d), element);
    if (from.scale_bytes > 0) {
      std::memcpy(keys + to.scale(t), key + from.scale(slot), 4);
      std::memcpy(values + to_value.scale(t), value + from.scale(slot), 4);
    }
  }
}

// The tokens that a tile attends to in a partition: tokens [first, last), groups [begin, end), relative to
// the partition's start.
struct TileGroups {
  TileGroups(const AttentionTile& tile, std::int32_t partition)
      : first(tile.first_token(0, partition)),
        last(tile.last_token(tile.num_row_heads() - 1, partition)),
        begin(first / kTokenGroup),
        end((last + kTokenGroup - 1) / kTokenGroup) {}
  std::int32_t first, last, begin, end;
};

// Iterates over the keys of consecutive groups.
class Groups {
 public:
  Groups(const AttentionCall& call, const AttentionSequence& sequence, std::int32_t kv_head,
         std::int32_t group)
      : call_(call),
        table_(sequence.block_table),
        piece_(call.args.cache + call.address.key_piece(call.args.layer, kv_head)),
        per_block_(call.args.layout.block_size / kTokenGroup),
        block_(group / per_block_),
        inside_(group % per_block_) {}
  const std::byte* next() {
    const std::byte* keys =
        piece_ + table_[block_] * call_.address.block_stride + inside_ * call_.group_address.head_bytes;
    if (++inside_ == per_block_) {
      ++block_;
      inside_ = 0;
    }
    return keys;
  }

 private:
  const AttentionCall& call_;
  const std::int32_t* table_;
  const std::byte* piece_;
  std::int32_t per_block_, block_, inside_;
};

}  // namespace

void write_kv(const AttentionCall& call, const AttentionSequence& sequence, std::int32_t kv_head) {
  static thread_local Scratch scratch;
  const PagedAttentionArgs& args = call.args;
  const KvAddress& address = call.address;
  const std::int32_t d_count = args.layout.head_size;
  auto* key16 = reinterpret_cast<std::uint16_t*>(scratch.take(static_cast<std::size_t>(call.width) * 4));
  std::uint16_t* const value16 = key16 + call.width;
  for (std::int32_t row = 0; row < sequence.num_queries; ++row) {
    const std::int32_t position = sequence.context_len - sequence.num_queries + row;
    const std::int32_t slot = position % args.layout.block_size;
    std::byte* block = call.block(sequence, position);
    std::byte* keys = block + address.key_piece(args.layer, kv_head);
    std::byte* values = block + address.value_piece(args.layer, kv_head);
    if (address.grouped && slot % kTokenGroup == 0 && args.layout.dtype != DType::i8) {
      // Later slots may hold stale data: a masked token has weight 0, but 0 * NaN is NaN.
      std::memset(values + address.value(slot, 0), 0,
                  static_cast<std::size_t>(kTokenGroup * address.token_bytes));
    }
    const std::int64_t source =
        (sequence.query_start + row) * args.key.stride + static_cast<std::int64_t>(kv_head) * d_count;
    const float* const key = floats(args.key) + source;
    const float* const value =
        address.latent ? key : floats(args.value) + source;  // a latent cache stores no values
    if (args.layout.dtype == DType::f32) {
      scatter_row(call, slot, key, value, keys, values);
      continue;
    }
    if (args.layout.dtype == DType::i8) {
      auto *key8 = reinterpret_cast<std::uint8_t*>(key16), *value8 = key8 + call.width;
      const float key_scale = call.kernels.to_int8(key, d_count, key8);
      const float value_scale = call.kernels.to_int8(value, d_count, value8);
      scatter_row(call, slot, key8, value8, keys, values);
      std::memcpy(keys + address.scale(slot), &key_scale, 4);
      std::memcpy(values + address.scale(slot), &value_scale, 4);
      continue;
    }
    if (args.layout.dtype == DType::e4m3) {
      auto *key8 = reinterpret_cast<std::uint8_t*>(key16), *value8 = key8 + call.width;
      call.kernels.to_e4m3(key, d_count, args.key_scale, key8);
      if (!address.latent) call.kernels.to_e4m3(value, d_count, args.value_scale, value8);
      scatter_row(call, slot, key8, value8, keys, values);
      continue;
    }
    const auto convert = args.layout.dtype == DType::f16 ? call.kernels.to_f16 : call.kernels.to_bf16;
    convert(key, d_count, key16);
    if (!address.latent) convert(value, d_count, value16);
    scatter_row(call, slot, key16, value16, keys, values);
  }
}

PartitionKv find_partition(const AttentionCall& call, const AttentionSequence& sequence,
                           const AttentionTile& tile, std::int32_t kv_head, std::int32_t partition) {
  static thread_local Scratch scratch;
  PartitionKv kv = {};
  const std::int32_t first_group = partition * kPartitionGroups;
  const TileGroups of(tile, partition);
  if (!call.direct) {
    const std::int64_t group_bytes = call.group_address.head_bytes,
                       both_bytes = group_bytes + call.value_address.head_bytes;
    const std::int32_t start = partition * kPartition;
    std::byte* keys = scratch.take(static_cast<std::size_t>(kPartitionGroups * both_bytes));
    for (std::int32_t g = of.begin; g < of.end; ++g, keys += both_bytes) {
      gather_group(call, sequence, kv_head, first_group + g, start + of.first, start + of.last, keys,
                   keys + group_bytes);
      kv.keys[g] = kv.next[g] = keys;
      kv.values[g] = keys + group_bytes;
    }
    return kv;
  }
  Groups groups(call, sequence, kv_head, first_group + of.begin);
  for (std::int32_t g = of.begin; g < of.end; ++g) {
    kv.keys[g] = kv.next[g] = groups.next();
    kv.values[g] = kv.keys[g] + call.address.value_offset;
  }
  if (!call.address.latent) return kv;
  const std::int64_t value_bytes = call.value_address.head_bytes;
  std::byte* values = scratch.take(static_cast<std::size_t>(kPartitionGroups * value_bytes));
  for (std::int32_t g = of.begin; g < of.end; ++g, values += value_bytes) {
    call.of_type.values_of_keys(kv.keys[g], call.value_width, values);
    kv.values[g] = values;
  }
  return kv;
}

void read_on(const AttentionCall& call, const AttentionSequence& sequence, const AttentionTile& tile,
             std::int32_t kv_head, std::int32_t partition, const NextPiece& next, PartitionKv& kv) {
  if (!call.direct) return;
  const std::int32_t first_group = partition * kPartitionGroups;
  const TileGroups of(tile, partition);
  // One partition ahead, or as many groups as this piece has.
  const std::int32_t num_groups =
      (tile.end_of(tile.position(tile.num_row_heads() - 1)) - 1) / kTokenGroup + 1;
  const std::int32_t ahead = std::min(kPartitionGroups, num_groups);
  std::int32_t g = of.begin;
  if (first_group + g + ahead < num_groups) {
    Groups rest(call, sequence, kv_head, first_group + g + ahead);
    for (; g < of.end && first_group + g + ahead < num_groups; ++g) kv.next[g] = rest.next();
  }
  const std::int32_t then = first_group + g + ahead - num_groups;  // a group of the next piece
  if (g < of.end && next.sequence != nullptr && then * kTokenGroup < next.sequence->context_len) {
    Groups rest(call, *next.sequence, next.kv_head, then);
    for (; g < of.end && (first_group + g + ahead - num_groups) * kTokenGroup < next.sequence->context_len;
         ++g)
      kv.next[g] = rest.next();
  }
}

void read_partition(const AttentionCall& call, const AttentionSequence& sequence, const AttentionTile& tile,
                    std::int32_t kv_head, std::int32_t partition, PartitionKv& kv) {
  if (!call.direct) return;
  const TileGroups of(tile, partition);
  Groups groups(call, sequence, kv_head, partition * kPartitionGroups + of.begin);
  std::int32_t left = of.end - of.begin;
  for (std::int32_t g = 0; g < kPartitionGroups && left > 0; ++g) {
    if (kv.next[g] == nullptr) continue;
    kv.next[g] = groups.next();
    --left;
  }
}

}  // namespace pagoda::cpu
