// Converts a folder's mixer tensors to GGUF's form: for each kind the inverse of what its class reads.
#include <algorithm>
#include <cmath>
#include <utility>

#include "loader/printable.h"
#include "models/quantize/folder_tensors.h"
#include "models/weights/weight_loader.h"

namespace pagoda {
namespace {

// The tensors of one layer.
class MixerTensors {
 public:
  MixerTensors(const LayerNames& names, FolderTensors& out)
      : names_(names), from_(out.from), to_(out.to), out_(out) {}

  void add(const AttentionConfig& attention) {
    const std::int64_t size = attention.head_size;
    const float input = attention.input_factor;
    const RowChange of_queries = rotated(size, 0, attention.query_factor, input),
                    of_keys = rotated(size, 0, attention.key_factor, input);
    if (of_queries.rotary_size > 0 && has(from_.fused_qkv))
      out_.refuse("queries, keys and values are one matrix");
    if (of_queries.rotary_size > 0 && attention.gate_size() > 0 && from_.output_gate.empty())
      out_.refuse("queries and gates are one matrix");
    if (from_.qkv_by_group)
      add_groups(attention);
    else
      part(from_.fused_qkv, to_.fused_qkv);
    part(from_.query, to_.query, of_queries);
    part(from_.key, to_.key, of_keys);
    part(from_.value, to_.value, times(attention.value_factor, input));
    part(from_.attention_output, to_.attention_output, times(attention.output_factor));
    part(from_.output_gate, to_.output_gate);
    if (!from_.sinks.empty()) out_.add_whole(names_.from + from_.sinks, names_.to + to_.sinks);
  }

  void add(const LatentAttentionConfig& latent) {
    const RowChange of_queries = rotated(latent.query_size(), latent.nope_size),
                    of_rows = rotated(latent.row_size(), latent.latent_size);
    part(from_.query, to_.query, of_queries);
    part(from_.query_a, to_.query_a);
    part(from_.query_b, to_.query_b, of_queries);
    part(from_.kv_a, to_.kv_a, of_rows);
    part(from_.attention_output, to_.attention_output);
    if (to_.key_b.empty() || !has(from_.kv_b)) {
      for (const WeightName name : {&WeightNames::kv_b, &WeightNames::key_b, &WeightNames::value_b})
        part(from_.*name, to_.*name);
      return;
    }
    // For each head: the keys, transposed, and below them the values.
    const TensorView* const both = out_.take(names_.from + from_.kv_b + ".weight");
    const std::int64_t heads = latent.num_heads, rows = latent.nope_size + latent.value_size;
    if (both == nullptr || both->shape != std::vector{heads * rows, std::int64_t{latent.latent_size}})
      return out_.refuse("tensor '", printable(names_.from + from_.kv_b),
                         "' has another size than its config.json says");
    GgufRows keys = {.name = names_.to + to_.key_b + ".weight",
                     .shape = {heads, latent.latent_size, latent.nope_size}};
    GgufRows values = {.name = names_.to + to_.value_b + ".weight",
                       .shape = {heads, latent.value_size, latent.latent_size}};
    for (std::int64_t head = 0; head < heads; ++head) {
      keys.parts.push_back({.stored = with_rows(*both, {head * rows, latent.nope_size}), .transposed = true});
      values.parts.push_back(
          {.stored = with_rows(*both, {head * rows + latent.nope_size, latent.value_size})});
    }
    out_.add(std::move(keys));
    out_.add(std::move(values));
  }

  void add(const ShortConvConfig& conv) {
    part(from_.conv_in, to_.conv_in);
    part(from_.conv_out, to_.conv_out);
    add_conv(conv.num_channels, conv.num_taps);
  }

  void add(const LinearAttentionConfig& heads) {
    if (heads.delta_rule)
      add_delta_net(heads);
    else
      add_mamba2(heads);
  }

  void add(const SelectiveScanConfig& scan) {
    for (const LinearName name :
         {&LinearAttentionNames::in, &LinearAttentionNames::scanned, &LinearAttentionNames::step,
          &LinearAttentionNames::key_norm, &LinearAttentionNames::query_norm,
          &LinearAttentionNames::step_norm, &LinearAttentionNames::out})
      linear(name);
    add_conv(scan.num_channels, scan.num_taps);
    add_rates({}, {scan.num_channels, scan.state_size});
    whole(&LinearAttentionNames::skip, {.weight_shape = {scan.num_channels}});
  }

  void add(const ParallelMixersConfig& both) {
    add(both.attention);
    add(both.linear);
  }
  void add(const NoMixerConfig&) {}

 private:
  bool has(const std::string& module) const {
    return !module.empty() && out_.has(names_.from + module + ".weight");
  }
  void part(const std::string& own, const std::string& other, const RowChange& change = {}) {
    if (own.empty()) return;
    RowChange turned = change;
    turned.transposed = from_.transposed;
    out_.add_module(names_.from + own, other.empty() ? "" : names_.to + other, turned);
  }
  void linear(LinearName name, const RowChange& change = {}) {
    part(from_.linear_attention.*name, to_.linear_attention.*name, change);
  }
  // Adds a tensor given by its full name.
  void whole(LinearName name, const RowChange& change) {
    const std::string &own = from_.linear_attention.*name, &other = to_.linear_attention.*name;
    if (!own.empty()) out_.add_whole(names_.from + own, names_.to + other, change);
  }

  // Heads of `head_size` rows that rotate from `begin` on, multiplied by a factor.
  RowChange rotated(std::int64_t head_size, std::int64_t begin, float factor = 1,
                    float input_factor = 1) const {
    RowChange change = times(factor, input_factor);
    if (!out_.form.by_neighbours) return change;
    change.head_size = head_size;
    change.rotary_begin = begin;
    change.rotary_size = out_.info.decoder.ropes.front().rotary_size;
    return change;
  }

  // Collects all queries, all keys and all values from the rows grouped by key-value head.
  void add_groups(const AttentionConfig& attention) {
    const std::int64_t size = attention.head_size, heads = attention.num_heads,
                       groups = attention.num_kv_heads, each = heads / groups;
    RowChange change;
    for (const Range& own : {Range{0, each}, Range{each, 1}, Range{each + 1, 1}})
      for (std::int64_t group = 0; group < groups; ++group)
        change.rows.push_back({(group * (each + 2) + own.first) * size, own.count * size});
    part(from_.fused_qkv, to_.fused_qkv, change);
  }

  // Folders store it with an extra axis of size one.
  void add_conv(std::int64_t channels, std::int64_t taps, std::vector<RowRun> rows = {}) {
    part(from_.conv, to_.conv, {.rows = std::move(rows), .weight_shape = {channels, taps}});
  }

  // Folders may store the logarithms of the negated rates.
  void add_rates(std::span<const RowRun> rows, std::vector<std::int64_t> shape) {
    const std::string &own = from_.linear_attention.rate, &other = to_.linear_attention.rate;
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    if (own.empty() || out_.take(names_.from + own) == nullptr) return;
    const std::vector<float> stored = out_.values(names_.from + own, count);
    std::vector<float> values;
    for (const RowRun& run : rows)
      for (std::int64_t i = run.first; i < run.first + run.count && !stored.empty(); ++i)
        values.push_back(stored[static_cast<std::size_t>(i)]);
    if (rows.empty()) values = stored;
    if (from_.linear_attention.rate_is_log)
      for (float& value : values) value = -std::exp(value);
    out_.add_values(names_.to + other, std::move(values), std::move(shape));
  }

  // Converts one matrix: [gate | value | B | C | step].
  void add_mamba2(const LinearAttentionConfig& states) {
    const std::int64_t heads = states.num_heads, groups = std::max(1, states.norm_groups),
                       sizes[] = {states.value_width(), states.value_width(), states.key_width(),
                                  states.key_width(), heads};
    RowChange in = {.input_factor = states.input_factor};
    std::int64_t first = 0;
    for (std::size_t i = 0; i < 5; ++i) {
      in.rows.push_back({first, sizes[i], states.in_factors[i]});
      first += sizes[i];
    }
    linear(&LinearAttentionNames::in, in);
    linear(&LinearAttentionNames::out, times(states.out_factor));
    if (states.norm_groups > 0)
      linear(&LinearAttentionNames::norm, {.weight_shape = {groups, states.value_width() / groups}});
    add_conv(states.num_channels(), states.num_taps);
    add_rates({}, {heads, 1});
    whole(&LinearAttentionNames::skip, {.weight_shape = {heads, 1}});
    whole(&LinearAttentionNames::step_bias, {.weight_shape = {heads}});
  }

  // The file's head h is the folder's head `order[h]`; in the folder consecutive heads share a key head.
  void add_delta_net(const LinearAttentionConfig& states) {
    const std::int64_t heads = states.num_heads, keys = states.num_key_heads, group = heads / keys,
                       key = states.key_size, value = states.value_size, width = states.key_width();
    std::vector<std::int64_t> order;
    for (std::int64_t head = 0; head < heads; ++head)
      order.push_back(out_.form.tiled_heads ? head % keys * group + head / keys : head);
    // `count` rows of each head, after the first `before` of the `all` rows of its key head.
    const auto of_heads = [&](std::int64_t before, std::int64_t count, std::int64_t all,
                              std::vector<RowRun> rows = {}) {
      for (const std::int64_t head : order)
        rows.push_back({head / group * all + before + head % group * count, count});
      return rows;
    };
    // The rows of all heads in order, from `begin` on.
    const auto in_order = [&](std::int64_t begin, std::int64_t count) {
      std::vector<RowRun> rows;
      if (begin > 0) rows.push_back({0, begin});
      return of_heads(begin, count, group * count, std::move(rows));
    };
    const LinearAttentionNames &own = from_.linear_attention, &other = to_.linear_attention;
    if (has(own.by_key_head)) {
      const std::int64_t all = 2 * key + 2 * group * value;
      std::vector<RowRun> rows;
      for (const std::int64_t before : {std::int64_t{0}, key})
        for (std::int64_t head = 0; head < keys; ++head) rows.push_back({head * all + before, key});
      split(own.by_key_head, {{other.qkv, of_heads(2 * key, value, all, std::move(rows))},
                              {other.gate, of_heads(2 * key + group * value, value, all)}});
    } else {
      linear(&LinearAttentionNames::qkv, {.rows = in_order(2 * width, value)});
      linear(&LinearAttentionNames::gate, {.rows = in_order(0, value)});
    }
    if (!has(own.gates_by_key_head)) {
      linear(&LinearAttentionNames::weight, {.rows = in_order(0, 1)});
      linear(&LinearAttentionNames::decay, {.rows = in_order(0, 1)});
    } else if (out_.form.tiled_heads) {
      split(own.gates_by_key_head,
            {{other.weight, of_heads(0, 1, 2 * group)}, {other.decay, of_heads(group, 1, 2 * group)}});
    } else {
      linear(&LinearAttentionNames::gates_by_key_head);
    }
    add_conv(states.num_channels(), states.num_taps, in_order(2 * width, value));
    add_rates(in_order(0, 1), {heads});
    whole(&LinearAttentionNames::step_bias, {.rows = in_order(0, 1)});
    linear(&LinearAttentionNames::norm);
    linear(&LinearAttentionNames::out,
           {.column_blocks = out_.form.tiled_heads ? order : std::vector<std::int64_t>()});
  }

  struct Share {
    std::string name;
    std::vector<RowRun> rows;
  };
  void split(const std::string& module, const std::vector<Share>& shares) {
    const TensorView* const all = out_.take(names_.from + module + ".weight");
    for (const Share& share : shares)
      out_.add_rows(*all, names_.to + share.name + ".weight", {.rows = share.rows});
  }

  const LayerNames& names_;
  const WeightNames &from_, &to_;
  FolderTensors& out_;
};

}  // namespace

void add_mixer(const LayerConfig& layer, const LayerNames& names, FolderTensors& out) {
  std::visit([&](const auto& mixer) { MixerTensors(names, out).add(mixer); }, layer.mixer);
}

}  // namespace pagoda
