#include "models/tensor_shard.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// Part `part` of `count` things cut into `parts` nearly equal parts.
Range part_of(std::int64_t count, std::int64_t parts, std::int64_t part) {
  const std::int64_t first = count * part / parts;
  return {first, count * (part + 1) / parts - first};
}

Range scaled(Range range, std::int64_t factor) { return {range.first * factor, range.count * factor}; }

// `count` things, a rank's in whole units.
std::vector<Range> split_units(std::int64_t count, std::int64_t unit, std::int32_t size) {
  std::vector<Range> parts;
  for (std::int32_t rank = 0; rank < size; ++rank)
    parts.push_back(scaled(part_of(count / unit, size, rank), unit));
  return parts;
}

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
  std::int64_t unit = block;
  if (block == 1 && total % 32 == 0 && total / 32 >= 4) unit = 32;  // whole groups of 8-bit activations
  if (total % unit != 0 || total / unit < size) {
    return invalid_argument(concat("cannot split the model over ", size, " ranks: a feed-forward size of ",
                                   total, unit > 1 ? concat(" in blocks of ", unit) : std::string()));
  }
  return split_units(total, unit, size);
}

// One rank of so many.
struct Cut {
  std::int32_t rank, size;
  MixtureCut mixtures;
};

Result<HeadShard> shard_of(const AttentionConfig& config, std::int64_t block, const Cut& cut) {
  if ((config.query_key_norm == QueryKeyNorm::whole || config.inner_norm) && cut.size > 1)
    return unimplemented("norms over all heads together cannot be split over ranks");
  PAGODA_ASSIGN_OR_RETURN(const auto heads, split_heads(config, block, cut.size));
  const Heads& own = heads[static_cast<std::size_t>(cut.rank)];
  HeadShard shard = {.query = own.query, .kv = own.kv, .ranks = {}};
  for (const Heads& part : heads) shard.ranks.push_back(part.query);
  return shard;
}

// Whole query heads; every rank keeps all of the rows that they share.
Result<HeadShard> shard_of(const LatentAttentionConfig& config, std::int64_t block, const Cut& cut) {
  auto shard = shard_of(
      AttentionConfig{
          .num_heads = config.num_heads, .num_kv_heads = config.num_heads, .head_size = config.value_size},
      block, cut);
  if (shard) shard->kv = {0, 1};
  return shard;
}

Result<HeadShard> on_one_rank(std::int64_t count, const Cut& cut) {
  if (cut.size > 1) return unimplemented("layers with states cannot be split over ranks");
  const Range all = {0, count};
  return HeadShard{.query = all, .kv = {}, .ranks = {all}};
}

// Its channels are as features of one head.
Result<HeadShard> shard_of(const ShortConvConfig& config, std::int64_t, const Cut& cut) {
  return on_one_rank(config.num_channels, cut);
}

Result<HeadShard> shard_of(const LinearAttentionConfig& config, std::int64_t, const Cut& cut) {
  return on_one_rank(config.num_heads, cut);
}

Result<HeadShard> shard_of(const SelectiveScanConfig& config, std::int64_t, const Cut& cut) {
  return on_one_rank(config.num_channels, cut);
}

Result<HeadShard> shard_of(const ParallelMixersConfig& config, std::int64_t block, const Cut& cut) {
  if (cut.size > 1) return unimplemented("layers with states cannot be split over ranks");
  return shard_of(config.attention, block, cut);
}

Result<HeadShard> shard_of(const NoMixerConfig&, std::int64_t, const Cut&) { return HeadShard{}; }

Result<FeedForwardShard> shard_of(const NoFeedForwardConfig&, std::int64_t, const Cut&) {
  return FeedForwardShard{};
}

FeatureShard shard_of(std::vector<Range> ranks, const Cut& cut) {
  return {.own = ranks[static_cast<std::size_t>(cut.rank)], .ranks = std::move(ranks)};
}

// Dense, sparse or of a learned curve.
template <class FeedForward>
Result<FeedForwardShard> shard_of(const FeedForward& config, std::int64_t block, const Cut& cut) {
  if constexpr (std::is_same_v<FeedForward, DenseFeedForwardConfig>)
    if (config.inner_norm && cut.size > 1)
      return unimplemented("norms over all features of a feed-forward cannot be split over ranks");
  PAGODA_ASSIGN_OR_RETURN(auto inner, split_intermediate(config.intermediate_size, block, cut.size));
  return FeedForwardShard{.inner = shard_of(std::move(inner), cut), .experts = {}, .of_expert = {}};
}

Result<std::vector<Range>> split_experts(std::int32_t experts, std::int32_t size) {
  if (experts < size)
    return invalid_argument(concat("cannot split the model over ", size, " ranks: ", experts, " experts"));
  return split_units(experts, 1, size);
}

Result<FeedForwardShard> shard_of(const MixtureConfig& config, std::int64_t block, const Cut& cut) {
  FeedForwardShard shard;
  const std::int64_t inner = config.expert.intermediate_size;
  if (cut.mixtures == MixtureCut::features) {
    PAGODA_ASSIGN_OR_RETURN(auto features, split_intermediate(inner, block, cut.size));
    shard.of_expert = shard_of(std::move(features), cut);
    shard.experts.own = {0, config.routing.num_experts};
  } else {
    PAGODA_ASSIGN_OR_RETURN(auto experts, split_experts(config.routing.num_experts, cut.size));
    shard.experts = shard_of(std::move(experts), cut);
    shard.of_expert.own = {0, inner};
  }
  if (config.shared_intermediate_size == 0) return shard;
  PAGODA_ASSIGN_OR_RETURN(auto shared,
                          shard_of(DenseFeedForwardConfig{config.shared_intermediate_size}, block, cut));
  shard.inner = std::move(shared.inner);
  return shard;
}

Result<FeedForwardShard> shard_of(const MixtureBesideDenseConfig& config, std::int64_t block,
                                  const Cut& cut) {
  PAGODA_ASSIGN_OR_RETURN(auto shard, shard_of(config.mixture, block, cut));
  PAGODA_ASSIGN_OR_RETURN(auto dense, shard_of(config.dense, block, cut));
  shard.inner = std::move(dense.inner);
  return shard;
}

// `count` rows or more, a rank's in whole tiles of 16 where that can be.
std::vector<Range> split_rows(std::int64_t count, std::int32_t size) {
  return split_units(count, count % 16 == 0 && count / 16 >= size ? 16 : 1, size);
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
                               std::int32_t size, ExchangeKind exchange, MixtureCut mixtures) {
  CHECK(size >= 1 && rank >= 0 && rank < size);
  for (const auto& [count, what] : {std::pair(std::int64_t{config.vocab_size}, "vocabulary"),
                                    std::pair(std::int64_t{config.hidden_size}, "hidden size")}) {
    if (count < size)
      return invalid_argument(
          concat("cannot split the model over ", size, " ranks: a ", what, " of ", count));
  }
  TensorShard shard;
  shard.rank = rank;
  shard.size = size;
  shard.exchange = exchange;
  shard.vocab = split_rows(config.vocab_size, size);
  shard.hidden = split_rows(config.hidden_size, size);
  const Cut cut = {rank, size, size > 1 ? mixtures : MixtureCut::experts};
  // Only columns can be cut inside of blocks.
  const ColumnBlocks units = exchange == ExchangeKind::sum ? blocks : ColumnBlocks();
  for (const LayerConfig& layer : config.layers) {
    auto heads = std::visit([&](const auto& mixer) { return shard_of(mixer, units.attention_output, cut); },
                            layer.mixer);
    if (!heads) return heads.error();
    auto part =
        std::visit([&](const auto& inner) { return shard_of(inner, units.down, cut); }, layer.feed_forward);
    if (!part) return part.error();
    shard.layers.push_back({*std::move(heads), std::move(part->inner), std::move(part->experts),
                            std::move(part->of_expert), shard.hidden[static_cast<std::size_t>(rank)],
                            shard.hidden, exchange});
  }
  return shard;
}

}  // namespace pagoda
