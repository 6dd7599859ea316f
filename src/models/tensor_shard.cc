#include "models/tensor_shard.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/strings.h"

namespace pagoda {
namespace {

// Part `part` of `count` things cut into `parts` nearly equal parts.
Range part_of(std::int64_t count, std::int64_t parts, std::int64_t part) {
  const std::int64_t first = count * part / parts;
  return {first, count * (part + 1) / parts - first};
}

Range scaled(Range range, std::int64_t factor) { return {range.first * factor, range.count * factor}; }

struct Heads {
  Range query, kv;
};

Result<std::vector<Heads>> split_heads(const AttentionConfig& config, std::int64_t block, std::int32_t size) {
  const std::int64_t group = config.num_heads / config.num_kv_heads;  // query heads of one key-value head
  // Key-value heads that cannot be parted without cutting a block of the output matrix's columns.
  const std::int64_t unit = block / std::gcd(block, group * config.head_size);
  std::vector<Heads> heads;
  if (config.num_kv_heads % unit == 0 && config.num_kv_heads / unit >= size) {
    for (std::int32_t rank = 0; rank < size; ++rank) {
      const Range kv = scaled(part_of(config.num_kv_heads / unit, size, rank), unit);
      heads.push_back({scaled(kv, group), kv});
    }
    return heads;
  }
  const std::int64_t query_unit = block / std::gcd(block, std::int64_t{config.head_size});
  if (config.num_kv_heads <= size && group % query_unit == 0) {
    // Each key-value head on one rank or more, which share its query heads.
    for (std::int64_t head = 0; head < config.num_kv_heads; ++head) {
      const Range ranks = part_of(size, config.num_kv_heads, head);
      if (ranks.count > group / query_unit) break;
      for (std::int64_t i = 0; i < ranks.count; ++i) {
        Range query = scaled(part_of(group / query_unit, ranks.count, i), query_unit);
        query.first += head * group;
        heads.push_back({query, {head, 1}});
      }
    }
    if (heads.size() == static_cast<std::size_t>(size)) return heads;
  }
  std::string blocks;
  if (block > 1) blocks = concat(", whose output weights are quantised in blocks of ", block, " columns");
  return invalid_argument(concat("cannot split the model over ", size, " ranks: ", config.num_heads,
                                 " attention heads of ", config.head_size, ", ", config.num_kv_heads,
                                 " for keys and values", blocks));
}

Result<std::vector<Range>> split_intermediate(std::int64_t total, std::int64_t block, std::int32_t size) {
  // Not a function of `size`: the parts of 2 ranks have to be unions of the parts of 4.
  std::int64_t unit = block;
  if (block == 1 && total % 32 == 0 && total / 32 >= 4) unit = 32;  // whole groups of 8-bit activations
  if (total % unit != 0 || total / unit < size) {
    return invalid_argument(concat("cannot split the model over ", size, " ranks: a feed-forward size of ",
                                   total, unit > 1 ? concat(" in blocks of ", unit) : std::string()));
  }
  std::vector<Range> parts;
  for (std::int32_t rank = 0; rank < size; ++rank)
    parts.push_back(scaled(part_of(total / unit, size, rank), unit));
  return parts;
}

// The pieces of `whole` between the cuts, which include its ends.
std::vector<Range> pieces_of(Range whole, const std::set<std::int64_t>& cuts) {
  std::vector<Range> pieces;
  for (auto cut = cuts.find(whole.first); *cut != whole.end();) {
    const std::int64_t first = *cut++;
    pieces.push_back({first, *cut - first});
  }
  return pieces;
}

void add_cuts(const Range& range, std::set<std::int64_t>& cuts) {
  cuts.insert(range.first);
  cuts.insert(range.end());
}

// How a layer's matrices are cut: for so many ranks, and also where they would be cut for the others that a
// fixed order of sums stands for, as far as the model can be cut so.
struct Cut {
  std::int32_t rank, size;
  SumOrder order;

  template <class Split, class RangeOf>
  std::set<std::int64_t> places(const Split& split, const RangeOf& range_of) const {
    std::set<std::int64_t> cuts;
    const auto add = [&](std::int32_t parts) {
      const auto ranges = split(parts);
      if (!ranges) return;
      for (const auto& part : *ranges) add_cuts(range_of(part), cuts);
    };
    add(size);
    if (order == SumOrder::fixed) add(2), add(4);
    return cuts;
  }
};

Result<HeadShard> shard_of(const AttentionConfig& config, std::int64_t block, const Cut& cut) {
  if (config.query_key_norm == QueryKeyNorm::whole && cut.size > 1)
    return unimplemented("norms over all heads together cannot be split over ranks");
  const auto split = [&](std::int32_t size) { return split_heads(config, block, size); };
  const auto heads = split(cut.size);
  if (!heads) return heads.error();
  const auto cuts = cut.places(split, [](const Heads& part) { return part.query; });
  const Heads& own = (*heads)[static_cast<std::size_t>(cut.rank)];
  HeadShard shard = {.query = own.query, .kv = own.kv, .pieces = pieces_of(own.query, cuts), .parts = {}};
  for (const Heads& part : *heads)
    shard.parts.push_back(static_cast<std::int32_t>(pieces_of(part.query, cuts).size()));
  return shard;
}

// What a rank has of things that `split` cuts into ranges, one for each rank.
template <class Split>
Result<FeatureShard> shard_ranges(const Split& split, const Cut& cut) {
  const auto parts = split(cut.size);
  if (!parts) return parts.error();
  const auto cuts = cut.places(split, [](const Range& part) { return part; });
  const Range own = (*parts)[static_cast<std::size_t>(cut.rank)];
  FeatureShard shard = {.own = own, .pieces = pieces_of(own, cuts), .parts = {}};
  for (const Range& part : *parts)
    shard.parts.push_back(static_cast<std::int32_t>(pieces_of(part, cuts).size()));
  return shard;
}

Result<FeedForwardShard> shard_of(const DenseFeedForwardConfig& config, std::int64_t block, const Cut& cut) {
  auto inner = shard_ranges(
      [&](std::int32_t size) { return split_intermediate(config.intermediate_size, block, size); }, cut);
  if (!inner) return inner.error();
  return FeedForwardShard{.inner = *std::move(inner), .experts = {}};
}

Result<std::vector<Range>> split_experts(std::int32_t experts, std::int32_t size) {
  if (experts < size)
    return invalid_argument(concat("cannot split the model over ", size, " ranks: ", experts, " experts"));
  std::vector<Range> parts;
  for (std::int32_t rank = 0; rank < size; ++rank) parts.push_back(part_of(experts, size, rank));
  return parts;
}

Result<FeedForwardShard> shard_of(const MixtureConfig& config, std::int64_t block, const Cut& cut) {
  FeedForwardShard shard;
  auto experts =
      shard_ranges([&](std::int32_t size) { return split_experts(config.routing.num_experts, size); }, cut);
  if (!experts) return experts.error();
  shard.experts = *std::move(experts);
  if (config.shared_intermediate_size == 0) return shard;
  auto shared = shard_of(DenseFeedForwardConfig{config.shared_intermediate_size}, block, cut);
  if (!shared) return shared.error();
  shard.inner = std::move(shared->inner);
  return shard;
}

Result<FeedForwardShard> shard_of(const MixtureBesideDenseConfig& config, std::int64_t block,
                                  const Cut& cut) {
  auto shard = shard_of(config.mixture, block, cut);
  if (!shard) return shard.error();
  auto dense = shard_of(config.dense, block, cut);
  if (!dense) return dense.error();
  shard->inner = std::move(dense->inner);
  return shard;
}

Result<FeedForwardShard> shard_of(const XieluConfig& config, std::int64_t block, const Cut& cut) {
  return shard_of(DenseFeedForwardConfig{config.intermediate_size}, block, cut);
}

}  // namespace

ColumnBlocks column_blocks(const ModelSource& source, const WeightNames& names, const DecoderConfig& config,
                           std::string_view dtype) {
  ColumnBlocks blocks;
  if (dtype != "auto" && dtype != "int8") return blocks;  // dequantised at load: any column will do
  for (std::int32_t layer = 0; layer < config.num_layers(); ++layer) {
    const std::string prefix = names.layer_prefix(layer);
    const auto take = [&](const std::string& name, std::int64_t& block) {
      const TensorView* tensor = source.find(concat(prefix, name, ".weight"));
      if (tensor != nullptr) block = std::lcm(block, std::int64_t{dtype_info(tensor->dtype).block_elements});
    };
    take(names.attention_output, blocks.attention_output);
    take(names.down, blocks.down);
    for (const ExpertNames& experts : names.experts) take(experts.shared_down, blocks.down);
  }
  return blocks;
}

Result<TensorShard> plan_shard(const DecoderConfig& config, const ColumnBlocks& blocks, std::int32_t rank,
                               std::int32_t size, SumOrder order) {
  CHECK(size >= 1 && rank >= 0 && rank < size);
  if (order == SumOrder::fixed && size != 1 && size != 2 && size != 4)
    return invalid_argument(concat("deterministic sums are for 1, 2 or 4 ranks, not ", size));
  TensorShard shard;
  shard.rank = rank;
  shard.size = size;
  const Cut cut = {rank, size, order};
  for (const LayerConfig& layer : config.layers) {
    auto heads = std::visit([&](const auto& mixer) { return shard_of(mixer, blocks.attention_output, cut); },
                            layer.mixer);
    if (!heads) return heads.error();
    auto inner =
        std::visit([&](const auto& part) { return shard_of(part, blocks.down, cut); }, layer.feed_forward);
    if (!inner) return inner.error();
    shard.most_pieces = std::max({shard.most_pieces, heads->pieces.size(), inner->most_pieces()});
    shard.layers.push_back({*std::move(heads), std::move(inner->inner), std::move(inner->experts)});
  }
  if (config.vocab_size < size)
    return invalid_argument(
        concat("cannot split the model over ", size, " ranks: a vocabulary of ", config.vocab_size));
  const std::int64_t vocab_unit = config.vocab_size % 16 == 0 && config.vocab_size / 16 >= size ? 16 : 1;
  for (std::int32_t part = 0; part < size; ++part)
    shard.vocab.push_back(scaled(part_of(config.vocab_size / vocab_unit, size, part), vocab_unit));
  return shard;
}

}  // namespace pagoda
