#include "models/attention_weights.h"

#include <algorithm>
#include <array>

#include "kernels/dequantize.h"

namespace pagoda {
namespace {

// The rows of query, key and value in a matrix that has them head by head: of each key-value head its query
// heads, then its key, then its value.
std::vector<Range> rows_by_group(const AttentionConfig& config, const HeadShard& shard) {
  const std::int64_t group = config.num_heads / config.num_kv_heads, size = config.head_size;
  std::vector<Range> ranges;
  for (std::int64_t head = shard.query.first; head < shard.query.end(); ++head)
    ranges.push_back({(head / group * (group + 2) + head % group) * size, size});
  for (const std::int64_t part : {group, group + 1})
    for (std::int64_t head = shard.kv.first; head < shard.kv.end(); ++head)
      ranges.push_back({(head * (group + 2) + part) * size, size});
  return ranges;
}

// The rows of queries in a matrix that has a gate behind each head's, or, `part` 1, of those gates.
std::vector<Range> every_other_head(const AttentionConfig& config, const HeadShard& shard,
                                    std::int64_t part) {
  std::vector<Range> ranges;
  for (std::int64_t head = shard.query.first; head < shard.query.end(); ++head)
    ranges.push_back({(2 * head + part) * config.head_size, config.head_size});
  return ranges;
}

// The norms' weights of heads `own` out of `count`, one behind the other; in the order in which the rows of
// heads are where `reordered` elements of each lie in adjacent pairs in the file.
std::vector<float> head_norms(const std::string& name, std::int64_t count, Range own, std::int64_t size,
                              std::int64_t reordered, WeightLoader& loader) {
  WeightReader& reader = loader.reader();
  std::vector<float> weights;
  if (const std::size_t number = name.find("{}"); number != std::string::npos) {
    for (std::int64_t head = 0; head < count && reader.status().ok(); ++head) {
      std::string each = name + ".weight";
      each.replace(number, 2, std::to_string(head));
      if (head < own.first || head >= own.end()) {  // another rank's
        reader.ignore(each);
        continue;
      }
      const std::vector<float> weight = reader.vector(each, size);
      weights.insert(weights.end(), weight.begin(), weight.end());
    }
  } else if (const TensorView all = reader.matrix(name + ".weight", count, size); reader.status().ok()) {
    weights.resize(static_cast<std::size_t>(own.count * size));
    for (std::int64_t head = 0; head < own.count; ++head)
      dequantize_row(all, own.first + head, weights.data() + head * size);
  }
  if (!reader.status().ok()) return {};
  std::vector<float> pairs(static_cast<std::size_t>(reordered));
  for (auto head = weights.begin(); head != weights.end() && reordered > 0; head += size) {
    std::copy_n(head, reordered, pairs.begin());
    for (std::int64_t i = 0; i < reordered; ++i)
      head[i % 2 * (reordered / 2) + i / 2] = pairs[static_cast<std::size_t>(i)];
  }
  return weights;
}

}  // namespace

AttentionWeights read_attention(const AttentionConfig& config, const HeadShard& shard,
                                const LayerPlace& place, const DecoderConfig& decoder, WeightLoader& loader) {
  AttentionWeights weights;
  const std::int32_t rotary_size =
      config.rope == kNoRope ? 0 : decoder.ropes[static_cast<std::size_t>(config.rope)].rotary_size;
  const WeightNames& names = loader.names();
  const std::string& prefix = place.prefix;
  if (config.query_key_norm == QueryKeyNorm::each_head) {
    const std::int32_t reordered = decoder.interleaved_rows ? rotary_size : 0;
    weights.query_norm = head_norms(prefix + names.query_norm, config.num_heads, shard.query,
                                    config.head_size, reordered, loader);
    weights.key_norm = head_norms(prefix + names.key_norm, config.num_kv_heads, shard.kv, config.head_size,
                                  reordered, loader);
  } else if (config.query_key_norm == QueryKeyNorm::per_head_unweighted) {
    weights.query_norm.assign(static_cast<std::size_t>(config.head_size), 1.0f);
    weights.key_norm = weights.query_norm;
  } else if (config.query_key_norm != QueryKeyNorm::none) {
    const bool whole = config.query_key_norm == QueryKeyNorm::whole;
    weights.query_norm = loader.norm_vector(prefix + names.query_norm,
                                            whole ? config.query_size() : config.head_size, *place.norm);
    if (config.has_own_kv())
      weights.key_norm = loader.norm_vector(prefix + names.key_norm,
                                            whole ? config.kv_size() : config.head_size, *place.norm);
  }

  const auto features = [&](Range heads) {
    return Range{heads.first * config.head_size, heads.count * config.head_size};
  };
  const Range query = features(shard.query), kv = features(shard.kv);
  if (config.sinks) {
    const std::vector<float> all = loader.reader().vector(prefix + names.sinks, config.num_heads);
    if (!all.empty()) weights.sinks.assign(all.begin() + shard.query.first, all.begin() + shard.query.end());
  }
  Matrices& qkv = weights.query_key_value;
  const bool fused = !names.fused_qkv.empty() &&
                     (names.query.empty() || loader.reader().has(prefix + names.fused_qkv + ".weight"));
  if (fused && names.qkv_by_group) {
    loader.add(qkv, prefix + names.fused_qkv, config.qkv_size(), place.hidden_size,
               rows_by_group(config, shard));
  } else {
    const bool gates_between = config.gate_size() > 0 && names.output_gate.empty();
    const std::int64_t query_rows = gates_between ? 2 * config.query_size() : config.query_size();
    // Rows of one of the three, or of where it begins in the matrix of all.
    const auto add = [&](const std::string& name, std::int64_t begin, std::int64_t count,
                         std::vector<Range> rows, float factor) {
      if (fused)
        for (Range& range : rows) range.first += begin;
      loader.add(qkv, prefix + (fused ? names.fused_qkv : name),
                 fused ? query_rows + 2 * config.kv_size() : count, place.hidden_size, rows, factor,
                 config.input_factor);
    };
    const auto add_queries = [&](std::int64_t part) {  // or, part 1, their gates
      add(names.query, 0, query_rows,
          gates_between ? every_other_head(config, shard, part) : std::vector{query}, config.query_factor);
    };
    add_queries(0);
    // Some files have those of layers that do not read them.
    if (!config.has_own_kv())
      for (const std::string& name : {names.key, names.value, names.key_norm})
        loader.reader().ignore(prefix + name + ".weight");
    // Keys that are values are multiplied twice: norm and rotation make two things of them in place.
    if (config.has_own_kv()) {
      const std::int64_t value = query_rows + (config.key_is_value ? 0 : config.kv_size());
      add(names.key, query_rows, config.kv_size(), {kv}, config.key_factor);
      add(config.key_is_value ? names.key : names.value, value, config.kv_size(), {kv}, config.value_factor);
    }
    if (gates_between)
      add_queries(1);
    else if (config.gate_size() > 0)
      loader.add(qkv, prefix + names.output_gate, config.gate_size(), place.hidden_size,
                 std::array{config.gates_whole_heads() ? shard.query : query});
  }
  if (decoder.interleaved_rows && rotary_size > 0 && !names.qkv_by_group) {
    loader.reorder_rows(qkv, 0, shard.query.count, config.head_size, rotary_size, 0);
    loader.reorder_rows(qkv, 1, shard.kv.count, config.head_size, rotary_size, query.count);
  }
  weights.name = prefix + (fused ? names.fused_qkv : names.query);
  return weights;
}

}  // namespace pagoda
