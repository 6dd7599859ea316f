// Paged attention on the CPU: writes the new K and V, finds the groups of 16 tokens behind the block
// table, and hands out (sequence, KV head, query rows) tiles, longest first.
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/scratch.h"
#include "kernels/kv_layout.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {

#if !defined(__x86_64__)
const AttentionKernels& attention_kernels_avx512() { return attention_kernels_portable(); }
const AttentionKernels& attention_kernels_avx2() { return attention_kernels_portable(); }
#endif

namespace {

const AttentionKernels& attention_kernels(CpuLevel level) {
  switch (level) {
    case CpuLevel::avx512:
      return attention_kernels_avx512();
    case CpuLevel::avx2:
      return attention_kernels_avx2();
    case CpuLevel::portable:
      break;
  }
  return attention_kernels_portable();
}

// A run of query rows of one sequence.
struct Unit {
  std::int32_t sequence, first_row, num_rows;
  std::int64_t cost;
};

// What one paged_attention call knows from the start.
struct Call {
  const PagedAttentionArgs& args;
  const AttentionKernels& kernels;
  const AttentionKernelsOfType& of_type;
  KvAddress address;
  KvAddress group_address;  // of one group of padded width: what the kernels read
  std::int32_t group;       // query heads per KV head
  std::int32_t width;       // head size padded to 16
  bool direct;              // the cache already holds whole groups of padded width

  std::byte* block(const AttentionSequence& sequence, std::int32_t position) const {
    return args.cache + sequence.block_table[position / args.layout.block_size] * address.block_stride;
  }
};

// Element d of a row goes to address.key(slot, d) and address.value(slot, d).
template <class Element>
void scatter_row(const Call& call, std::int32_t slot, const Element* key, const Element* value,
                 std::byte* keys, std::byte* values) {
  const KvAddress& address = call.address;
  const std::int32_t d_count = call.args.layout.head_size;
  auto* k = reinterpret_cast<Element*>(keys + address.key(slot, 0));
  auto* v = reinterpret_cast<Element*>(values + address.value(slot, 0));
  constexpr std::int32_t kPacked = 4 / sizeof(Element);
  if (!address.grouped) {
    std::copy(key, key + d_count, k);
    std::copy(value, value + d_count, v);
  } else if (address.packed == 1) {
    for (std::int32_t d = 0; d < d_count; ++d) k[d * kTokenGroup] = key[d];
    std::copy(value, value + d_count, v);
  } else {
    // Whole packs: the converted row goes on with zeros.
    for (std::int32_t d = 0; d < d_count; d += kPacked) std::memcpy(k + d * kTokenGroup, key + d, 4);
    for (std::int32_t d = 0; d < d_count; ++d) v[kPacked * d] = value[d];
  }
}

void write_kv(const Call& call, const AttentionSequence& sequence, std::int32_t kv_head) {
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
      // The slots behind may hold anything from before: a masked token has weight 0, but 0 * NaN is NaN.
      std::memset(values + address.value(slot, 0), 0,
                  static_cast<std::size_t>(kTokenGroup * address.token_bytes));
    }
    const std::int64_t source =
        (sequence.query_start + row) * args.row_stride + static_cast<std::int64_t>(kv_head) * d_count;
    if (args.layout.dtype == DType::f32) {
      scatter_row(call, slot, args.key + source, args.value + source, keys, values);
      continue;
    }
    if (args.layout.dtype == DType::i8) {
      auto *key8 = reinterpret_cast<std::uint8_t*>(key16), *value8 = key8 + call.width;
      const float key_scale = call.kernels.to_int8(args.key + source, d_count, key8);
      const float value_scale = call.kernels.to_int8(args.value + source, d_count, value8);
      scatter_row(call, slot, key8, value8, keys, values);
      std::memcpy(keys + address.scale(slot), &key_scale, 4);
      std::memcpy(values + address.scale(slot), &value_scale, 4);
      continue;
    }
    const auto convert = args.layout.dtype == DType::f16 ? call.kernels.to_f16 : call.kernels.to_bf16;
    convert(args.key + source, d_count, key16);
    convert(args.value + source, d_count, value16);
    scatter_row(call, slot, key16, value16, keys, values);
  }
}

// Copies tokens [first, last) of group `group` into group form of padded width; the rest is zero.
void gather_group(const Call& call, const AttentionSequence& sequence, std::int32_t kv_head,
                  std::int32_t group, std::int32_t first, std::int32_t last, std::byte* keys,
                  std::byte* values) {
  const KvAddress &from = call.address, &to = call.group_address;
  std::memset(keys, 0, static_cast<std::size_t>(to.head_bytes));
  std::memset(values, 0, static_cast<std::size_t>(to.head_bytes));
  const std::int32_t size = call.args.layout.block_size;
  const auto element = static_cast<std::size_t>(from.element);
  for (std::int32_t t = 0; t < kTokenGroup; ++t) {
    const std::int32_t position = group * kTokenGroup + t, slot = position % size;
    if (position < first || position >= last) continue;
    const std::byte* block = call.block(sequence, position);
    const std::byte* key = block + from.key_piece(call.args.layer, kv_head);
    const std::byte* value = block + from.value_piece(call.args.layer, kv_head);
    for (std::int32_t d = 0; d < call.args.layout.head_size; ++d) {
      std::memcpy(keys + to.key(t, d), key + from.key(slot, d), element);
      std::memcpy(values + to.value(t, d), value + from.value(slot, d), element);
    }
    if (from.scale_bytes > 0) {
      std::memcpy(keys + to.scale(t), key + from.scale(slot), 4);
      std::memcpy(values + to.scale(t), value + from.scale(slot), 4);
    }
  }
}

// Where one thread reads on when it is through with a (sequence, KV head): its next one, or none.
struct NextPiece {
  const AttentionSequence* sequence = nullptr;
  std::int32_t kv_head = 0;
};

// The keys of one group after the other.
class Groups {
 public:
  Groups(const Call& call, const AttentionSequence& sequence, std::int32_t kv_head, std::int32_t group)
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
  const Call& call_;
  const std::int32_t* table_;
  const std::byte* piece_;
  std::int32_t per_block_, block_, inside_;
};

PartitionKv find_partition(const Call& call, const AttentionSequence& sequence, const AttentionTile& tile,
                           std::int32_t kv_head, std::int32_t partition, const NextPiece& next) {
  static thread_local Scratch scratch;
  PartitionKv kv = {};
  const std::int32_t start = partition * kPartition, first_group = start / kTokenGroup;
  const std::int32_t first = tile.first_token(0, partition);
  const std::int32_t last = tile.last_token(tile.num_row_heads() - 1, partition);
  const std::int32_t begin = first / kTokenGroup, end = (last + kTokenGroup - 1) / kTokenGroup;
  if (!call.direct) {
    const std::int64_t group_bytes = call.group_address.head_bytes;
    std::byte* keys = scratch.take(static_cast<std::size_t>(2 * kPartitionGroups * group_bytes));
    for (std::int32_t g = begin; g < end; ++g, keys += 2 * group_bytes) {
      gather_group(call, sequence, kv_head, first_group + g, start + first, start + last, keys,
                   keys + group_bytes);
      kv.keys[g] = kv.next[g] = keys;
      kv.values[g] = keys + group_bytes;
    }
    return kv;
  }
  Groups groups(call, sequence, kv_head, first_group + begin);
  for (std::int32_t g = begin; g < end; ++g) {
    kv.keys[g] = kv.next[g] = groups.next();
    kv.values[g] = kv.keys[g] + call.address.value_offset;
  }
  // What comes into the cache meanwhile is a partition ahead, or as many groups as this piece has.
  const std::int32_t num_groups = tile.position(tile.num_row_heads() - 1) / kTokenGroup + 1;
  const std::int32_t ahead = std::min(kPartitionGroups, num_groups);
  std::int32_t g = begin;
  if (first_group + g + ahead < num_groups) {
    Groups rest(call, sequence, kv_head, first_group + g + ahead);
    for (; g < end && first_group + g + ahead < num_groups; ++g) kv.next[g] = rest.next();
  }
  const std::int32_t then = first_group + g + ahead - num_groups;  // a group of the next piece
  if (g < end && next.sequence != nullptr && then * kTokenGroup < next.sequence->context_len) {
    Groups rest(call, *next.sequence, next.kv_head, then);
    for (; g < end && (first_group + g + ahead - num_groups) * kTokenGroup < next.sequence->context_len; ++g)
      kv.next[g] = rest.next();
  }
  return kv;
}

AttentionTile make_tile(const Call& call, const Unit& unit, std::int32_t kv_head) {
  const PagedAttentionArgs& args = call.args;
  const AttentionSequence& sequence = args.sequences[static_cast<std::size_t>(unit.sequence)];
  const std::int64_t row = sequence.query_start + unit.first_row;
  const std::int64_t head = static_cast<std::int64_t>(kv_head) * call.group * args.layout.head_size;
  const std::int64_t output_stride = static_cast<std::int64_t>(args.num_query_heads) * args.layout.head_size;
  return {.query = args.query + row * args.row_stride + head,
          .query_stride = args.row_stride,
          .output = args.output + row * output_stride + head,
          .output_stride = output_stride,
          .num_rows = unit.num_rows,
          .group = call.group,
          .head_size = args.layout.head_size,
          .width = call.width,
          .first_position = sequence.context_len - sequence.num_queries + unit.first_row,
          .window = args.sliding_window,
          .scale = args.scale};
}

std::int32_t first_partition(const AttentionTile& tile) {
  return tile.window > 0 ? std::max(0, tile.first_position - tile.window + 1) / kPartition : 0;
}
std::int32_t last_partition(const AttentionTile& tile) {
  return (tile.first_position + tile.num_rows - 1) / kPartition;
}

constexpr std::size_t state_floats(std::size_t row_heads, std::size_t width) {
  return row_heads * (width + 2);
}
AttentionState state_at(float* memory, std::size_t row_heads) {
  return {.max = memory, .sum = memory + row_heads, .values = memory + 2 * row_heads};
}

// All partitions of one tile on one thread.
void attend(const Call& call, const Unit& unit, std::int32_t kv_head, const NextPiece& next) {
  static thread_local Scratch scratch;
  const AttentionSequence& sequence = call.args.sequences[static_cast<std::size_t>(unit.sequence)];
  const AttentionTile tile = make_tile(call, unit, kv_head);
  const auto row_heads = static_cast<std::size_t>(tile.num_row_heads()),
             width = static_cast<std::size_t>(tile.width);
  const std::size_t one = round_up(static_cast<std::int64_t>(state_floats(row_heads, width)), 16);
  auto* memory = reinterpret_cast<float*>(scratch.take(4 * (2 * one + row_heads * width)));
  const AttentionState total = state_at(memory, row_heads), part = state_at(memory + one, row_heads);
  void* const query = memory + 2 * one;
  call.of_type.prepare(tile, query);
  std::fill(total.sum, total.sum + row_heads, 0.0f);
  for (std::int32_t p = first_partition(tile); p <= last_partition(tile); ++p) {
    const PartitionKv kv = find_partition(call, sequence, tile, kv_head, p, next);
    call.of_type.partition(tile, query, p, kv, part);
    call.kernels.merge(tile, total, part);
  }
  call.kernels.finish(tile, total);
}

// Few tiles with long contexts: partitions are computed apart and merged afterwards in the same order.
void attend_split(const KernelContext& context, const Call& call, std::span<const Unit> units) {
  static thread_local Scratch scratch;
  struct Piece {
    std::int32_t unit, kv_head, partition;
    float* state;
  };
  const std::int32_t kv_heads = call.args.layout.num_kv_heads;
  std::vector<Piece> pieces;
  std::size_t floats = 0;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const AttentionTile tile = make_tile(call, units[u], 0);
    for (std::int32_t head = 0; head < kv_heads; ++head) {
      for (std::int32_t p = first_partition(tile); p <= last_partition(tile); ++p) {
        pieces.push_back({static_cast<std::int32_t>(u), head, p, nullptr});
        floats += state_floats(static_cast<std::size_t>(tile.num_row_heads()),
                               static_cast<std::size_t>(tile.width));
      }
    }
  }
  auto* memory = reinterpret_cast<float*>(scratch.take(4 * floats));
  for (Piece& piece : pieces) {
    piece.state = memory;
    const Unit& unit = units[static_cast<std::size_t>(piece.unit)];
    memory += state_floats(static_cast<std::size_t>(unit.num_rows * call.group),
                           static_cast<std::size_t>(call.width));
  }
  for_tiles(context, static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int) {
    static thread_local Scratch query_scratch;
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    const Unit& unit = units[static_cast<std::size_t>(piece.unit)];
    const AttentionTile tile = make_tile(call, unit, piece.kv_head);
    const auto row_heads = static_cast<std::size_t>(tile.num_row_heads());
    std::byte* query = query_scratch.take(4 * row_heads * static_cast<std::size_t>(tile.width));
    call.of_type.prepare(tile, query);
    const AttentionSequence& sequence = call.args.sequences[static_cast<std::size_t>(unit.sequence)];
    const PartitionKv kv = find_partition(call, sequence, tile, piece.kv_head, piece.partition, {});
    call.of_type.partition(tile, query, piece.partition, kv, state_at(piece.state, row_heads));
  });
  for (std::size_t i = 0; i < pieces.size();) {
    const Piece& head = pieces[i];
    const AttentionTile tile = make_tile(call, units[static_cast<std::size_t>(head.unit)], head.kv_head);
    const auto row_heads = static_cast<std::size_t>(tile.num_row_heads());
    const AttentionState total = state_at(head.state, row_heads);  // the first partition's place
    std::size_t next = i + 1;
    for (; next < pieces.size() && pieces[next].unit == head.unit && pieces[next].kv_head == head.kv_head;
         ++next) {
      call.kernels.merge(tile, total, state_at(pieces[next].state, row_heads));
    }
    call.kernels.finish(tile, total);
    i = next;
  }
}

}  // namespace

void paged_attention(const KernelContext& context, const PagedAttentionArgs& args) {
  static thread_local std::vector<Unit> units;
  const AttentionKernels& kernels = attention_kernels(context.level);
  const KvLayout& layout = args.layout;
  const auto width = static_cast<std::int32_t>(round_up(layout.head_size, 16));
  Call call{.args = args,
            .kernels = kernels,
            .of_type = layout.dtype == DType::f32   ? kernels.f32
                       : layout.dtype == DType::f16 ? kernels.f16
                       : layout.dtype == DType::i8  ? kernels.i8
                                                    : kernels.bf16,
            .address = KvAddress(layout),
            .group_address = KvAddress({.dtype = layout.dtype,
                                        .num_layers = 1,
                                        .num_kv_heads = 1,
                                        .head_size = width,
                                        .block_size = kTokenGroup}),
            .group = args.num_query_heads / layout.num_kv_heads,
            .width = width,
            .direct = layout.block_size % kTokenGroup == 0 && layout.head_size % 16 == 0};

  // 32 query rows share each reading of K and V; more would leave threads idle at the end.
  constexpr std::int32_t kRows = 32;
  bool write_first = false;
  std::int32_t longest = 0;
  units.clear();
  for (std::size_t s = 0; s < args.sequences.size(); ++s) {
    const AttentionSequence& sequence = args.sequences[s];
    write_first = write_first || sequence.num_queries > kRows;
    longest = std::max(longest, sequence.context_len);
    for (std::int32_t row = 0; row < sequence.num_queries; row += kRows) {
      const std::int32_t rows = std::min(kRows, sequence.num_queries - row);
      const std::int64_t context_len = sequence.context_len - sequence.num_queries + row + rows;
      units.push_back({static_cast<std::int32_t>(s), row, rows, context_len * rows});
    }
  }
  const auto longer = [](const Unit& a, const Unit& b) { return a.cost > b.cost; };
  if (!std::is_sorted(units.begin(), units.end(), longer)) std::sort(units.begin(), units.end(), longer);

  const std::int64_t kv_heads = layout.num_kv_heads;
  const std::int64_t threads = context.pool == nullptr ? 1 : context.pool->num_threads();
  const auto tiles = static_cast<std::int64_t>(units.size()) * kv_heads;
  const bool split = threads > 1 && tiles < 4 * threads && longest > kPartition;
  write_first = write_first || split;
  const auto sequences = static_cast<std::int64_t>(args.sequences.size());
  if (write_first) {
    for_tiles(context, sequences * kv_heads, [&](std::int64_t tile, int) {
      write_kv(call, args.sequences[static_cast<std::size_t>(tile / kv_heads)],
               static_cast<std::int32_t>(tile % kv_heads));
    });
  }
  if (split) {
    attend_split(context, call, units);
    return;
  }
  // The lambda must see the calling thread's list.
  const std::vector<Unit>& all = units;
  const auto run = [&](const Unit& unit, std::int32_t kv_head, const NextPiece& next) {
    if (!write_first) write_kv(call, args.sequences[static_cast<std::size_t>(unit.sequence)], kv_head);
    attend(call, unit, kv_head, next);
  };
  const auto num_units = static_cast<std::int64_t>(units.size());
  if (num_units >= 8 * threads) {
    // One thread takes all KV heads of a unit, which are neighbours in memory; then, if all run alike, the
    // unit behind those that the others have.
    for_tiles(context, num_units, [&](std::int64_t tile, int) {
      const Unit& unit = all[static_cast<std::size_t>(tile)];
      const AttentionSequence* sequence = &args.sequences[static_cast<std::size_t>(unit.sequence)];
      const Unit* after =
          tile + threads < num_units ? &all[static_cast<std::size_t>(tile + threads)] : nullptr;
      const AttentionSequence* then =
          after != nullptr ? &args.sequences[static_cast<std::size_t>(after->sequence)] : nullptr;
      for (std::int32_t head = 0; head < layout.num_kv_heads; ++head) {
        const bool last = head + 1 == layout.num_kv_heads;
        run(unit, head, {last ? then : sequence, last ? 0 : head + 1});
      }
    });
  } else {
    for_tiles(context, tiles, [&](std::int64_t tile, int) {
      run(all[static_cast<std::size_t>(tile / kv_heads)], static_cast<std::int32_t>(tile % kv_heads), {});
    });
  }
}

}  // namespace pagoda::cpu
