// Paged attention on the CPU: distributes tiles of (sequence, KV head, query rows), giving each thread the
// tiles of its own rows, longest first.
#include <algorithm>
#include <span>
#include <vector>

#include "kernels/cpu/attention_call.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/level.h"
#include "kernels/cpu/scratch.h"
#include "kernels/tiles.h"

namespace pagoda::cpu {
namespace {

// A range of query rows of one sequence.
struct AttentionUnit {
  std::int32_t sequence, first_row, num_rows;
  std::int64_t cost;
  std::int64_t thread;  // the thread whose cache probably holds these rows
};

bool comes_first(const AttentionUnit& a, const AttentionUnit& b) {
  return a.thread != b.thread ? a.thread < b.thread : a.cost > b.cost;
}

// Orders units for for_tiles: each thread gets the units of its own rows, longest first; a thread with fewer
// units takes the shortest ones of the thread with the most.
void deal_out(std::vector<AttentionUnit>& units, std::int64_t threads) {
  static thread_local std::vector<AttentionUnit> sorted;
  static thread_local std::vector<std::span<const AttentionUnit>> left;
  sorted = units;
  if (!std::is_sorted(sorted.begin(), sorted.end(), comes_first))
    std::sort(sorted.begin(), sorted.end(), comes_first);
  left.clear();
  auto begin = sorted.cbegin();
  for (std::int64_t thread = 0; thread < threads; ++thread) {
    const auto end =
        std::find_if(begin, sorted.cend(), [&](const AttentionUnit& u) { return u.thread != thread; });
    left.emplace_back(begin, end);
    begin = end;
  }
  for (std::size_t i = 0; i < units.size(); ++i) {
    auto& own = left[i % left.size()];
    if (!own.empty()) {
      units[i] = own.front();
      own = own.subspan(1);
    } else {
      auto& most =
          *std::max_element(left.begin(), left.end(), [](auto a, auto b) { return a.size() < b.size(); });
      units[i] = most.back();
      most = most.first(most.size() - 1);
    }
  }
}

AttentionTile make_tile(const AttentionCall& call, const AttentionUnit& unit, std::int32_t kv_head) {
  const PagedAttentionArgs& args = call.args;
  const AttentionSequence& sequence = args.sequences[static_cast<std::size_t>(unit.sequence)];
  const std::int64_t row = sequence.query_start + unit.first_row;
  const std::int64_t head = static_cast<std::int64_t>(kv_head) * call.group * args.layout.head_size;
  const std::int64_t output_stride =
      static_cast<std::int64_t>(args.num_query_heads) * args.layout.value_size();
  return {.query = floats(args.query, row) + head,
          .query_stride = args.query.stride,
          .output = floats(args.output) + row * output_stride +
                    static_cast<std::int64_t>(kv_head) * call.group * args.layout.value_size(),
          .output_stride = output_stride,
          .num_rows = unit.num_rows,
          .group = call.group,
          .head_size = args.layout.head_size,
          .value_size = args.layout.value_size(),
          .width = call.width,
          .value_width = call.value_width,
          .first_position = sequence.context_len - sequence.num_queries + unit.first_row,
          .window = args.sliding_window,
          .chunks = args.chunks,
          .end = args.causal ? 0 : sequence.context_len,
          .scale = args.scale * call.key_scale,
          .softcap = args.softcap,
          .value_scale = call.value_scale,
          .sinks = args.sinks == nullptr ? nullptr : args.sinks + kv_head * call.group,
          .slopes = args.slopes == nullptr ? nullptr : args.slopes + kv_head * call.group};
}

// A row's query, key and value are probably in another core's cache, so fetching them takes a while.
void prefetch_row(const PagedAttentionArgs& args, std::int64_t row) {
  const auto fetch = [&](const Buffer& rows, std::int64_t width) {
    if (!rows) return;
    for (std::int64_t i = 0; i < width; i += 16) __builtin_prefetch(floats(rows, row) + i);
  };
  fetch(args.query, std::int64_t{args.num_query_heads} * args.layout.head_size);
  fetch(args.key, std::int64_t{args.layout.num_kv_heads} * args.layout.head_size);
  if (args.layout.latent_size == 0)
    fetch(args.value, std::int64_t{args.layout.num_kv_heads} * args.layout.head_size);
}

std::int32_t first_partition(const AttentionTile& tile) {
  return std::max(0, tile.first_seen(tile.first_position)) / kPartition;
}
std::int32_t last_partition(const AttentionTile& tile) {
  return (tile.end_of(tile.first_position + tile.num_rows - 1) - 1) / kPartition;
}

// One partition of a unit, computed separately.
struct Piece {
  const AttentionUnit* unit;
  std::int32_t kv_head, partition;
  std::size_t state;  // offset of its softmax state, in floats
};

constexpr std::size_t state_floats(std::size_t row_heads, std::size_t value_width) {
  return row_heads * (value_width + 2);
}
AttentionState state_at(float* memory, std::size_t row_heads) {
  return {.max = memory, .sum = memory + row_heads, .values = memory + 2 * row_heads};
}

// Computes all partitions of one tile on one thread.
void attend(const AttentionCall& call, const AttentionUnit& unit, std::int32_t kv_head,
            const NextPiece& next) {
  static thread_local Scratch scratch;
  const AttentionSequence& sequence = call.args.sequences[static_cast<std::size_t>(unit.sequence)];
  const AttentionTile tile = make_tile(call, unit, kv_head);
  const auto row_heads = static_cast<std::size_t>(tile.num_row_heads());
  const std::size_t one = static_cast<std::size_t>(round_up(
      static_cast<std::int64_t>(state_floats(row_heads, static_cast<std::size_t>(tile.value_width))), 16));
  auto* memory = reinterpret_cast<float*>(
      scratch.take(4 * 2 * one + static_cast<std::size_t>(call.of_type.work_bytes(tile))));
  const AttentionState total = state_at(memory, row_heads), part = state_at(memory + one, row_heads);
  auto* const work = reinterpret_cast<std::byte*>(memory + 2 * one);
  call.of_type.prepare(tile, work);
  std::fill(total.sum, total.sum + row_heads, 0.0f);
  for (std::int32_t p = first_partition(tile); p <= last_partition(tile); ++p) {
    PartitionKv kv = find_partition(call, sequence, tile, kv_head, p);
    read_on(call, sequence, tile, kv_head, p, next, kv);
    call.of_type.partition(tile, work, p, kv, part);
    call.kernels.merge(tile, total, part);
  }
  call.kernels.finish(tile, total);
}

// For few tiles with long contexts: partitions are computed separately and then merged in the same order.
void attend_split(const KernelContext& context, const AttentionCall& call,
                  std::span<const AttentionUnit> units) {
  static thread_local Scratch scratch;
  static thread_local std::vector<Piece> all;
  static thread_local std::vector<std::size_t> begins;  // offset of each unit's states, in floats
  const std::int32_t kv_heads = call.args.layout.num_kv_heads,
                     threads = static_cast<std::int32_t>(num_threads(context));
  const auto size_of = [&](const AttentionTile& tile) {
    return state_floats(static_cast<std::size_t>(tile.num_row_heads()),
                        static_cast<std::size_t>(tile.value_width));
  };
  std::vector<Piece>& pieces = all;
  pieces.clear();
  begins.assign(1, 0);
  for (const AttentionUnit& unit : units) {
    const AttentionTile tile = make_tile(call, unit, 0);
    const std::int32_t first = first_partition(tile), last = last_partition(tile);
    // A thread takes all heads of a partition, which are adjacent in memory.
    for (std::int32_t group = first; group <= last; group += threads) {
      for (std::int32_t head = 0; head < kv_heads; ++head) {
        for (std::int32_t p = group; p <= last && p < group + threads; ++p) {
          const auto state = static_cast<std::size_t>(head * (last - first + 1) + p - first);
          pieces.push_back({&unit, head, p, begins.back() + state * size_of(tile)});
        }
      }
    }
    begins.push_back(begins.back() + static_cast<std::size_t>(kv_heads * (last - first + 1)) * size_of(tile));
  }
  auto* const memory = reinterpret_cast<float*>(scratch.take(4 * begins.back()));
  const auto sequence_of = [&](const Piece& piece) -> const AttentionSequence& {
    return call.args.sequences[static_cast<std::size_t>(piece.unit->sequence)];
  };
  for_tiles(context, static_cast<std::int64_t>(pieces.size()), [&](std::int64_t i, int) {
    static thread_local Scratch work_scratch;
    const Piece& piece = pieces[static_cast<std::size_t>(i)];
    const AttentionTile tile = make_tile(call, *piece.unit, piece.kv_head);
    const auto row_heads = static_cast<std::size_t>(tile.num_row_heads());
    std::byte* const work = work_scratch.take(static_cast<std::size_t>(call.of_type.work_bytes(tile)));
    call.of_type.prepare(tile, work);
    PartitionKv kv = find_partition(call, sequence_of(piece), tile, piece.kv_head, piece.partition);
    if (const auto after = static_cast<std::size_t>(i + threads); after < pieces.size()) {
      const Piece& next = pieces[after];
      read_partition(call, sequence_of(next), make_tile(call, *next.unit, next.kv_head), next.kv_head,
                     next.partition, kv);
    }
    call.of_type.partition(tile, work, piece.partition, kv, state_at(memory + piece.state, row_heads));
  });
  for (std::size_t u = 0; u < units.size(); ++u) {
    float* state = memory + begins[u];
    for (std::int32_t head = 0; head < kv_heads; ++head) {
      const AttentionTile tile = make_tile(call, units[u], head);
      const auto row_heads = static_cast<std::size_t>(tile.num_row_heads());
      const AttentionState total = state_at(state, row_heads);  // stored in place of the first partition
      state += size_of(tile);
      for (std::int32_t p = first_partition(tile); p < last_partition(tile); ++p, state += size_of(tile))
        call.kernels.merge(tile, total, state_at(state, row_heads));
      call.kernels.finish(tile, total);
    }
  }
}

AttentionCall call_of(const KernelContext& context, const PagedAttentionArgs& args) {
  const AttentionKernels& kernels = kernels_of<AttentionKernels>(context.level);
  const KvLayout& layout = args.layout;
  const auto width = static_cast<std::int32_t>(round_up(layout.head_size, 16)),
             value_width = static_cast<std::int32_t>(round_up(layout.value_size(), 16));
  const auto group_of_width = [&](std::int32_t padded) {
    return KvAddress({.dtype = layout.dtype,
                      .num_layers = 1,
                      .num_kv_heads = 1,
                      .head_size = padded,
                      .block_size = kTokenGroup});
  };
  const bool scaled = layout.dtype == DType::e4m3;
  const float value_scale = layout.latent_size > 0 ? args.key_scale : args.value_scale;
  return {.args = args,
          .kernels = kernels,
          .of_type = layout.dtype == DType::f32    ? kernels.f32
                     : layout.dtype == DType::f16  ? kernels.f16
                     : layout.dtype == DType::i8   ? kernels.i8
                     : layout.dtype == DType::e4m3 ? kernels.e4m3
                                                   : kernels.bf16,
          .address = KvAddress(layout),
          .group_address = group_of_width(width),
          .value_address = group_of_width(value_width),
          .group = args.num_query_heads / layout.num_kv_heads,
          .width = width,
          .value_width = value_width,
          .key_scale = scaled ? args.key_scale * kE4m3Unit : 1.0f,
          .value_scale = scaled ? value_scale * kE4m3Unit : 1.0f,
          .direct = layout.block_size % kTokenGroup == 0 && layout.head_size % 16 == 0};
}

struct BatchExtent {
  std::int64_t num_rows = 0;
  std::int32_t longest_context = 0;
  bool shares_sequences = false;  // several units attend to one sequence
};

// Lists the units of a batch: up to 32 query rows, which share each read of K and V; more would leave threads
// idle at the end. In a latent cache all heads share K, and they are many and wide, so the rows are limited
// to what stays near the core.
BatchExtent list_units(const AttentionCall& call, std::int64_t threads, std::vector<AttentionUnit>& units) {
  constexpr std::int32_t kMaxRows = 32, kLatentRowHeads = 128;
  const PagedAttentionArgs& args = call.args;
  const std::int32_t rows_of_unit =
      args.layout.latent_size > 0 ? std::clamp(kLatentRowHeads / call.group, 1, kMaxRows) : kMaxRows;
  const std::int64_t at_once = rows_at_once(args);
  BatchExtent extent;
  units.clear();
  for (std::size_t s = 0; s < args.sequences.size(); ++s) {
    const AttentionSequence& sequence = args.sequences[s];
    extent.shares_sequences = extent.shares_sequences || sequence.num_queries > rows_of_unit;
    extent.longest_context = std::max(extent.longest_context, sequence.context_len);
    extent.num_rows += sequence.num_queries;
    for (std::int32_t row = 0; row < sequence.num_queries; row += rows_of_unit) {
      const std::int32_t rows = std::min(rows_of_unit, sequence.num_queries - row);
      const std::int64_t context_len = sequence.context_len - sequence.num_queries + row + rows;
      units.push_back({static_cast<std::int32_t>(s), row, rows, context_len * rows,
                       thread_of_row(sequence.query_start + row, at_once, threads)});
    }
  }
  deal_out(units, threads);
  return extent;
}

// True if the partitions of a context are computed separately: few tiles, long contexts, and states that fit
// into a reasonable amount of memory.
bool splits_contexts(const AttentionCall& call, const BatchExtent& extent, std::int64_t tiles,
                     std::int64_t threads) {
  constexpr std::int64_t kMaxStates = std::int64_t{64} << 20;  // floats
  const std::int64_t states = extent.num_rows * call.args.num_query_heads *
                              ceil_div(extent.longest_context, kPartition) * call.value_width;
  return threads > 1 && tiles < 4 * threads && extent.longest_context > kPartition && states <= kMaxStates;
}

// Writes the new keys and values of all sequences; on one thread if distributing the work would take longer.
void write_all(const KernelContext& context, const AttentionCall& call, std::int64_t num_rows) {
  const std::int64_t kv_heads = call.args.layout.num_kv_heads;
  const std::int64_t tiles = std::ssize(call.args.sequences) * kv_heads;
  const auto write = [&](std::int64_t tile, int) {
    write_kv(call, call.args.sequences[static_cast<std::size_t>(tile / kv_heads)],
             static_cast<std::int32_t>(tile % kv_heads));
  };
  if (num_rows * kv_heads > 16)
    for_tiles(context, tiles, write);
  else
    for (std::int64_t tile = 0; tile < tiles; ++tile) write(tile, 0);
}

// `writes`: each unit writes its sequence's new keys and values itself, before it reads them.
void attend_whole(const KernelContext& context, const AttentionCall& call,
                  const std::vector<AttentionUnit>& units, bool writes) {
  const PagedAttentionArgs& args = call.args;
  const std::int32_t kv_heads = args.layout.num_kv_heads;
  const std::int64_t threads = num_threads(context);
  const auto num_units = static_cast<std::int64_t>(units.size());
  const auto sequence_of = [&](const AttentionUnit& unit) {
    return &args.sequences[static_cast<std::size_t>(unit.sequence)];
  };
  const auto run = [&](const AttentionUnit& unit, std::int32_t kv_head, const NextPiece& next) {
    if (writes) write_kv(call, *sequence_of(unit), kv_head);
    attend(call, unit, kv_head, next);
  };
  if (num_units < 8 * threads) {
    for_tiles(context, num_units * kv_heads, [&](std::int64_t tile, int) {
      run(units[static_cast<std::size_t>(tile / kv_heads)], static_cast<std::int32_t>(tile % kv_heads), {});
    });
    return;
  }
  // One thread takes all KV heads of a unit, which are adjacent in memory, and then its next unit.
  for_tiles(context, num_units, [&](std::int64_t tile, int) {
    const AttentionUnit& unit = units[static_cast<std::size_t>(tile)];
    const AttentionUnit* const after =
        tile + threads < num_units ? &units[static_cast<std::size_t>(tile + threads)] : nullptr;
    const AttentionSequence* const then = after != nullptr ? sequence_of(*after) : nullptr;
    if (then != nullptr) prefetch_row(args, then->query_start + after->first_row);
    for (std::int32_t head = 0; head < kv_heads; ++head) {
      const bool last = head + 1 == kv_heads;
      run(unit, head, {last ? then : sequence_of(unit), last ? 0 : head + 1});
    }
  });
}

}  // namespace

void paged_attention(const KernelContext& context, const PagedAttentionArgs& args) {
  static thread_local std::vector<AttentionUnit> units;
  const AttentionCall call = call_of(context, args);
  const std::int64_t threads = num_threads(context);
  const BatchExtent extent = list_units(call, threads, units);
  const std::int64_t tiles = std::ssize(units) * args.layout.num_kv_heads;
  const bool split = splits_contexts(call, extent, tiles, threads);
  const bool writes = static_cast<bool>(args.key);  // false: K and V are already in the cache
  const bool writes_first = writes && (split || extent.shares_sequences);
  if (writes_first) write_all(context, call, extent.num_rows);
  if (split)
    attend_split(context, call, units);
  else
    attend_whole(context, call, units, writes && !writes_first);
}

}  // namespace pagoda::cpu
