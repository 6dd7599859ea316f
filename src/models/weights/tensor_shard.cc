#include "models/weights/tensor_shard.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"

namespace pagoda {
namespace {

// Returns part `part` of `count` items cut into `parts` nearly equal parts.
Range part_of(std::int64_t count, std::int64_t parts, std::int64_t part) {
  const std::int64_t first = count * part / parts;
  return {first, count * (part + 1) / parts - first};
}

Range scaled(Range range, std::int64_t factor) { return {range.first * factor, range.count * factor}; }

// Splits `count` items into whole units per rank.
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
  const std::int64_t group = config.num_heads / config.num_kv_heads;  // query heads per key-value head
  // Smallest number of key-value heads that does not cut a block of the output matrix's columns.
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
    // Each key-value head is on one or more ranks, which divide its query heads.
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

// One rank of a group of `size`.
struct Cut {
  std::int32_t rank, size;
  MixtureCut mixtures;
};

Result<MixerShard> shard_of(const AttentionConfig& config, std::int64_t block, const Cut& cut) {
  if (config.query_key_norm == QueryKeyNorm::whole && config.norm_after_rope && cut.size > 1)
    return unimplemented("norms over all heads behind their rotation cannot be split over ranks");
  PAGODA_ASSIGN_OR_RETURN(const auto heads, split_heads(config, block, cut.size));
  const Heads& own = heads[static_cast<std::size_t>(cut.rank)];
  MixerShard shard = {.heads = {.query = own.query, .kv = own.kv}};
  for (const Heads& part : heads) {
    shard.heads.ranks.push_back(part.query);
    shard.heads.kv_ranks.push_back(part.kv);
  }
  return shard;
}

// Whole query heads; every rank keeps all rows, which the heads share.
Result<MixerShard> shard_of(const LatentAttentionConfig& config, std::int64_t block, const Cut& cut) {
  auto shard = shard_of(
      AttentionConfig{
          .num_heads = config.num_heads, .num_kv_heads = config.num_heads, .head_size = config.value_size},
      block, cut);
  if (!shard) return shard;
  shard->heads.kv = {0, 1};
  shard->heads.kv_ranks.assign(static_cast<std::size_t>(cut.size), {0, 1});
  return shard;
}

// Heads (or channels) of `size` columns of the output matrix, equally many per rank. Consecutive heads share
// one of `num_keys` key heads or, if tiled, consecutive heads have consecutive key heads.
struct StateHeads {
  std::int64_t count, size;
  std::int64_t num_keys = 0;
  bool tiled = false;
  std::string_view name;
};

Result<MixerShard> split_states(const StateHeads& heads, std::int64_t block, const Cut& cut) {
  const std::int64_t each = heads.count / cut.size;
  const auto refused = [&](std::string_view why) {
    const std::string keys =
        heads.num_keys > 0 ? concat(" over ", heads.num_keys, " for keys") : std::string();
    return invalid_argument(concat("cannot split the model over ", cut.size, " ranks: ", heads.count, " ",
                                   heads.name, keys, why));
  };
  if (each * cut.size != heads.count) return refused(concat(", which ", cut.size, " does not divide"));
  if (cut.size > 1 && each * heads.size % block != 0)
    return refused(concat(", whose output weights are quantised in blocks of ", block, " columns"));
  StateShard shard = {.own = {each * cut.rank, each}};
  for (std::int64_t rank = 0; rank < cut.size; ++rank) shard.ranks.push_back({each * rank, each});
  if (heads.num_keys == 0) return MixerShard{.states = std::move(shard)};
  if (heads.tiled) {  // key heads from the first head's on, wrapping around at the end
    const std::int64_t first = shard.own.first % heads.num_keys, count = std::min(each, heads.num_keys);
    const std::int64_t before = std::min(count, heads.num_keys - first);
    shard.keys.push_back({first, before});
    if (before < count) shard.keys.push_back({0, count - before});
    return MixerShard{.states = std::move(shard)};
  }
  const std::int64_t group = heads.count / heads.num_keys;  // heads per key head
  if (each % group != 0 && group % each != 0)
    return refused(concat(", of which ", each, " are neither whole groups nor parts of one"));
  shard.keys.push_back({shard.own.first / group, std::max<std::int64_t>(1, each / group)});
  return MixerShard{.states = std::move(shard)};
}

// Channels are cut like heads of size one.
Result<MixerShard> shard_of(const ShortConvConfig& config, std::int64_t block, const Cut& cut) {
  return split_states({.count = config.num_channels, .size = 1, .name = "channels"}, block, cut);
}

Result<MixerShard> shard_of(const LinearAttentionConfig& config, std::int64_t block, const Cut& cut) {
  return split_states({.count = config.num_heads,
                       .size = config.value_size,
                       .num_keys = config.num_key_heads,
                       .tiled = config.tiled_heads,
                       .name = "heads with states"},
                      block, cut);
}

Result<MixerShard> shard_of(const SelectiveScanConfig& config, std::int64_t block, const Cut& cut) {
  return split_states({.count = config.num_channels, .size = 1, .name = "channels with states"}, block, cut);
}

Result<MixerShard> shard_of(const ParallelMixersConfig& config, std::int64_t block, const Cut& cut) {
  PAGODA_ASSIGN_OR_RETURN(auto heads, shard_of(config.attention, block, cut));
  PAGODA_ASSIGN_OR_RETURN(auto states, shard_of(config.linear, block, cut));
  return MixerShard{.heads = std::move(heads.heads), .states = std::move(states.states)};
}

Result<MixerShard> shard_of(const NoMixerConfig&, std::int64_t, const Cut&) { return MixerShard{}; }

Result<FeedForwardShard> shard_of(const NoFeedForwardConfig&, std::int64_t, const Cut&) {
  return FeedForwardShard{};
}

FeatureShard shard_of(std::vector<Range> ranks, const Cut& cut) {
  return {.own = ranks[static_cast<std::size_t>(cut.rank)], .ranks = std::move(ranks)};
}

// Dense, sparse or xIELU.
template <class FeedForward>
Result<FeedForwardShard> shard_of(const FeedForward& config, std::int64_t block, const Cut& cut) {
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

// Splits at least `count` rows, into whole tiles of 16 per rank if possible.
std::vector<Range> split_rows(std::int64_t count, std::int32_t size) {
  return split_units(count, count % 16 == 0 && count / 16 >= size ? 16 : 1, size);
}

bool keeps_states(const LayerShard& layer) { return layer.states.own.count > 0; }

// With states, each rank must have equally many key-value heads, so that a sequence has the same pages on
// all.
Status check_equal_pages(const TensorShard& shard) {
  if (std::ranges::none_of(shard.layers, keeps_states)) return ok_status();
  for (const LayerShard& layer : shard.layers)
    for (const Range& kv : layer.heads.kv_ranks)
      if (kv.count != layer.heads.kv.count)
        return invalid_argument(
            concat("cannot split the model over ", shard.size, " ranks: ", layer.heads.kv_ranks.back().end(),
                   " heads for keys and values, which ", shard.size, " does not divide, beside states"));
  return ok_status();
}

}  // namespace

ColumnBlocks column_blocks(const ModelSource& source, const WeightNames& names, const DecoderConfig& config,
                           std::string_view dtype) {
  ColumnBlocks blocks;
  if (dtype != "auto" && dtype != "int8") return blocks;  // dequantised at load: any column may be cut
  for (std::int32_t layer = 0; layer < config.num_layers(); ++layer) {
    const std::string prefix = names.layer_prefix(layer);
    const auto take = [&](const std::string& name, std::int64_t& block) {
      const TensorView* tensor = source.find(concat(prefix, name, ".weight"));
      if (tensor != nullptr) block = std::lcm(block, std::int64_t{dtype_info(tensor->dtype).block_elements});
    };
    for (const std::string& name : {names.attention_output, names.linear_attention.out, names.conv_out})
      if (!name.empty()) take(name, blocks.attention_output);
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
  // Only a cut by columns can fall inside a block.
  const ColumnBlocks units = exchange == ExchangeKind::sum ? blocks : ColumnBlocks();
  for (const LayerConfig& layer : config.layers) {
    auto mixer = std::visit([&](const auto& part) { return shard_of(part, units.attention_output, cut); },
                            layer.mixer);
    if (!mixer) return mixer.error();
    auto part =
        std::visit([&](const auto& inner) { return shard_of(inner, units.down, cut); }, layer.feed_forward);
    if (!part) return part.error();
    shard.layers.push_back({std::move(mixer->heads), std::move(mixer->states), std::move(part->inner),
                            std::move(part->experts), std::move(part->of_expert),
                            shard.hidden[static_cast<std::size_t>(rank)], shard.hidden, exchange});
  }
  PAGODA_RETURN_IF_ERROR(check_equal_pages(shard));
  return shard;
}

LinearAttentionConfig part_of(const LinearAttentionConfig& config, const StateShard& shard) {
  LinearAttentionConfig part = config;
  part.num_heads = static_cast<std::int32_t>(shard.own.count);
  part.num_key_heads = 0;
  for (const Range& keys : shard.keys) part.num_key_heads += static_cast<std::int32_t>(keys.count);
  return part;
}

std::vector<LayerState> layer_states(const DecoderConfig& config, const TensorShard& shard) {
  DecoderConfig part = config;
  if (std::ranges::none_of(shard.layers, keeps_states)) return layer_states(part);
  for (std::size_t i = 0; i < part.layers.size(); ++i) {
    const LayerShard& of_layer = shard.layers[i];
    const auto cut_heads = [&](AttentionConfig& attention) {
      attention.num_kv_heads = static_cast<std::int32_t>(of_layer.heads.kv.count);
    };
    const auto cut_channels = [&](std::int32_t& channels) {
      channels = static_cast<std::int32_t>(of_layer.states.own.count);
    };
    MixerConfig& mixer = part.layers[i].mixer;
    if (auto* attention = std::get_if<AttentionConfig>(&mixer)) cut_heads(*attention);
    if (auto* conv = std::get_if<ShortConvConfig>(&mixer)) cut_channels(conv->num_channels);
    if (auto* scan = std::get_if<SelectiveScanConfig>(&mixer)) cut_channels(scan->num_channels);
    if (auto* linear = std::get_if<LinearAttentionConfig>(&mixer))
      *linear = part_of(*linear, of_layer.states);
    if (auto* both = std::get_if<ParallelMixersConfig>(&mixer)) {
      cut_heads(both->attention);
      both->linear = part_of(both->linear, of_layer.states);
    }
  }
  return layer_states(part);
}

std::vector<float> columns_of(const std::vector<float>& rows, std::int64_t width,
                              std::span<const Range> columns) {
  std::vector<float> out;
  for (auto row = rows.begin(); row != rows.end(); row += width)
    for (const Range& range : columns) out.insert(out.end(), row + range.first, row + range.end());
  return out;
}

std::vector<Range> features_of(std::span<const Range> heads, std::int64_t size) {
  std::vector<Range> features;
  for (const Range& range : heads) features.push_back(scaled(range, size));
  return features;
}

}  // namespace pagoda
