// Writes a Description as JSON and as a table for users.
#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/plain_numbers.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "loader/weight_types.h"
#include "models/describe.h"
#include "models/reading.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kArrayPreview = 8;

json::value number_json(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

json::value array_json(const GgufArray& array) {
  json::array first;
  const auto add = [&](const auto& elements, const auto& as_json) {
    for (std::size_t i = 0; i < std::min(elements.size(), kArrayPreview); ++i)
      first.push_back(as_json(elements[i]));
  };
  // At most one of them is not empty.
  add(array.integers, [](std::int64_t number) { return json::value(number); });
  add(array.floats, number_json);
  add(array.strings, [](std::string_view text) { return json::value(valid_utf8(text.substr(0, 1000))); });
  add(array.booleans, [](bool flag) { return json::value(flag); });
  constexpr std::string_view kElements[] = {"integer", "float", "string", "boolean"};
  return json::object{{"array_of", kElements[static_cast<std::size_t>(array.element)]},
                      {"count", array.size()},
                      {"first", std::move(first)}};
}

json::value value_json(const GgufValue& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) return *number;
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number;
  if (const auto* number = std::get_if<double>(&value)) return number_json(*number);
  if (const auto* boolean = std::get_if<bool>(&value)) return *boolean;
  if (const auto* text = std::get_if<std::string>(&value)) return json::value(valid_utf8(*text));
  return array_json(*std::get<std::shared_ptr<GgufArray>>(value));
}

std::string_view rope_scaling_name(RopeScaling scaling) {
  constexpr std::string_view kNames[] = {"none", "linear", "llama3", "yarn", "longrope", "dynamic"};
  return kNames[static_cast<std::size_t>(scaling)];
}

// Returns the activation of the first layer with a feed-forward.
std::string_view first_activation(const DecoderConfig& decoder) {
  for (const LayerConfig& layer : decoder.layers) {
    if (const DenseFeedForwardConfig* const dense = layer.dense()) return activation_name(dense->activation);
    if (const MixtureConfig* const mixture = layer.mixture())
      return activation_name(mixture->expert.activation);
    if (const auto* const both = std::get_if<MixtureBesideDenseConfig>(&layer.feed_forward))
      return activation_name(both->dense.activation);
    if (std::holds_alternative<SparseFeedForwardConfig>(layer.feed_forward)) return "gelu_new";
  }
  return "silu";
}

// Numbers of layers by kind.
struct LayerCounts {
  std::int32_t window = 0, with_window = 0;  // window: the largest
  std::int32_t recurrent = 0;
  const LatentAttentionConfig* latent = nullptr;
};

LayerCounts count_layers(const DecoderConfig& decoder) {
  LayerCounts counts;
  for (const LayerConfig& layer : decoder.layers) {
    if (const AttentionConfig* const attention = layer.attention()) {
      counts.window = std::max(counts.window, attention->sliding_window);
      counts.with_window += attention->sliding_window > 0 ? 1 : 0;
    }
    if (const auto* const latent = std::get_if<LatentAttentionConfig>(&layer.mixer)) counts.latent = latent;
    counts.recurrent += std::holds_alternative<LinearAttentionConfig>(layer.mixer) ||
                                std::holds_alternative<ShortConvConfig>(layer.mixer) ||
                                std::holds_alternative<SelectiveScanConfig>(layer.mixer) ||
                                std::holds_alternative<ParallelMixersConfig>(layer.mixer)
                            ? 1
                            : 0;
  }
  return counts;
}

json::value or_null(std::int32_t value, bool given) {
  return given ? json::value(value) : json::value(nullptr);
}

json::object config_json(const ModelInfo& model) {
  const DecoderConfig& decoder = model.decoder;
  const HeadSizes heads = head_sizes(decoder);
  const LayerCounts counts = count_layers(decoder);
  json::object out = {
      {"architecture", model.architecture},
      {"name", valid_utf8(model.name)},
      {"vocab_size", decoder.vocab_size},
      {"hidden_size", decoder.hidden_size},
      {"num_layers", decoder.num_layers()},
      {"num_heads", heads.num_heads},
      {"num_kv_heads", heads.num_kv_heads},
      {"head_size", heads.head_size},
      {"intermediate_size", model.intermediate_size},
      {"embedding_size", decoder.embedding_size},
      {"max_positions", decoder.max_positions},
      {"norm_eps", decoder.layers.front().norm.eps},
      {"activation", first_activation(decoder)},
      {"tie_embeddings", decoder.tied_head},
      {"weight_type", model.weight_type},
      {"bos_token_id", or_null(model.bos_token_id, model.bos_token_id >= 0)},
      {"eos_token_ids", json::value_from(model.eos_token_ids)},
      {"pad_token_id", or_null(model.pad_token_id, model.pad_token_id >= 0)},
      {"sliding_window", or_null(counts.window, counts.window > 0)},
  };
  if (counts.window > 0) out["window_layers"] = counts.with_window;
  if (!model.unknown_options.empty()) out["unknown_options"] = json::value_from(model.unknown_options);
  if (counts.latent != nullptr) out["latent_row"] = counts.latent->row_size();
  if (counts.recurrent > 0) out["recurrent_layers"] = counts.recurrent;
  if (decoder.ropes.empty()) return out;
  const RopeConfig& rope = decoder.ropes.front();
  out["rope_theta"] = rope.theta;
  out["rotary_size"] = rope.rotary_size;
  out["rope_scaling"] = rope_scaling_name(rope.scaling);
  if (rope.scaling != RopeScaling::none) out["rope_factor"] = rope.factor;
  return out;
}

std::string human_bytes(std::int64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit) value /= 1024;
  return concat(fixed(value, unit == 0 ? 0 : 1), " ", kUnits[unit]);
}

std::string human_count(std::int64_t count) {
  const auto value = static_cast<double>(count);
  if (value >= 1e9) return concat(fixed(value / 1e9, 2), " billion");
  if (value >= 1e6) return concat(fixed(value / 1e6, 1), " million");
  return concat(count);
}

std::string value_text(const GgufValue& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return printable(*text, 80);
  if (const auto* array = std::get_if<std::shared_ptr<GgufArray>>(&value)) {
    const json::value described = array_json(**array);
    return concat((*array)->size(), " ", std::string_view(described.at("array_of").as_string()), "s ",
                  printable(json::serialize(described.at("first")), 60));
  }
  if (const auto* number = std::get_if<double>(&value)) return concat(*number);
  return json::serialize(value_json(value));
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t extent : shape) out += concat(out.empty() ? "" : " x ", extent);
  return out.empty() ? "scalar" : out;
}

// Formats rows of cells as aligned columns, with two spaces before and between them.
class Table {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void append_to(std::string& out) const {
    std::vector<std::size_t> widths;
    for (const auto& cells : rows_) {
      widths.resize(std::max(widths.size(), cells.size()));
      for (std::size_t i = 0; i < cells.size(); ++i) widths[i] = std::max(widths[i], width(cells[i]));
    }
    for (const auto& cells : rows_) {
      for (std::size_t i = 0; i < cells.size(); ++i) {
        out += "  " + cells[i];
        if (i + 1 < cells.size()) out.append(widths[i] - width(cells[i]), ' ');
      }
      out += '\n';
    }
  }

 private:
  static std::size_t width(std::string_view text) {  // in characters, not bytes
    std::size_t count = 0;
    for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    return count;
  }
  std::vector<std::vector<std::string>> rows_;
};

void config_rows(const Description& description, Table& table) {
  const ModelInfo& model = *description.model;
  const DecoderConfig& decoder = model.decoder;
  const HeadSizes heads = head_sizes(decoder);
  const LayerCounts counts = count_layers(decoder);
  if (!model.name.empty()) table.row({"name", printable(model.name)});
  table.row({"layers", concat(decoder.num_layers())});
  table.row(
      {"hidden size", concat(decoder.hidden_size, model.intermediate_size > 0
                                                      ? concat(", feed-forward ", model.intermediate_size)
                                                      : std::string())});
  const std::string kept = counts.latent != nullptr
                               ? concat("one latent row of ", counts.latent->latent_size, " + ",
                                        counts.latent->rope_size, " a token for all of them")
                               : concat(heads.num_kv_heads, " for keys and values");
  const std::string windows =
      counts.window > 0 ? concat(", window ", counts.window, " in ", counts.with_window, " layers") : "";
  table.row({"attention", heads.num_heads == 0
                              ? std::string("none")
                              : concat(heads.num_heads, " heads of ", heads.head_size, ", ", kept, windows)});
  table.row({"vocabulary", concat(decoder.vocab_size, decoder.tied_head ? ", embeddings tied" : "")});
  table.row({"context", concat(decoder.max_positions, " tokens")});
  if (!model.unknown_options.empty()) table.row({"not known", describe_unknown_options(model)});
}

std::string human_kv(const KvBytes& bytes) {
  return concat(human_bytes(bytes.bfloat16), " in bfloat16, ",
                bytes.int8 > 0 ? concat(human_bytes(bytes.int8), " in int8, ") : std::string(),
                human_bytes(bytes.fp8), " in fp8, ", human_bytes(bytes.float32), " in float32");
}

json::object kv_json(const KvBytes& bytes) {
  return {{"float32", bytes.float32},
          {"bfloat16", bytes.bfloat16},
          {"int8", bytes.int8 > 0 ? json::value(bytes.int8) : json::value(nullptr)},
          {"fp8", bytes.fp8}};
}

// Sums over all groups.
KvBytes sum_of(const ServingFacts& facts, KvBytes DescribedKvGroup::* part) {
  KvBytes sum;
  for (const DescribedKvGroup& group : facts.kv_groups) {
    sum.float32 += (group.*part).float32;
    sum.bfloat16 += (group.*part).bfloat16;
    sum.int8 += (group.*part).int8;
    sum.fp8 += (group.*part).fp8;
  }
  return sum;
}

void facts_rows(const ServingFacts& facts, Table& table) {
  if (!facts.family.empty()) {
    table.row({"family", facts.family});
    table.row({"checked against", facts.checked});
  }
  if (!facts.default_dtype.empty())
    table.row({"by default", concat("computed in ", facts.default_dtype,
                                    facts.default_kv_dtype.empty() ? "" : ", keys and values in ",
                                    facts.default_kv_dtype)});
  for (const DescribedKvGroup& group : facts.kv_groups) {
    if (group.state) {
      table.row({"", concat(group.num_layers, " layers with a state of ",
                            human_bytes(group.full_context.bfloat16), " a sequence, padding included")});
      continue;
    }
    const std::string layers =
        concat(group.num_layers, " layers that see ",
               group.window > 0 ? concat("the last ", group.window, " tokens") : "everything");
    table.row({&group == facts.kv_groups.data() ? "KV cache" : "",
               concat(layers, ": ", human_kv(group.per_1024_tokens), " for 1k tokens")});
    if (group.window > 0) table.row({"", concat("  at most ", human_kv(group.full_context), " a sequence")});
  }
  if (!facts.kv_groups.empty())
    table.row({"", concat("one full context ", human_kv(sum_of(facts, &DescribedKvGroup::full_context)))});
  if (facts.scaled_layers > 0)
    table.row({"", concat("the files have scales of ", facts.scaled_layers,
                          " layers' keys and values, for --kv-cache-dtype fp8")});
  if (facts.active_bytes > 0 && facts.memory_bytes_per_second > 0)
    table.row(
        {"speed", concat("at most about ",
                         fixed(facts.memory_bytes_per_second / static_cast<double>(facts.active_bytes), 1),
                         " tokens/s for one request (an estimate: ", human_bytes(facts.active_bytes),
                         " of weights a token, memory of ", fixed(facts.memory_bytes_per_second / 1e9, 1),
                         " GB/s measured just now)")});
}

json::object facts_json(const ServingFacts& facts) {
  json::array groups;
  for (const DescribedKvGroup& group : facts.kv_groups)
    groups.push_back({{"layers", group.num_layers},
                      {"window", group.window > 0 ? json::value(group.window) : json::value(nullptr)},
                      {"state", group.state},
                      {"bytes_per_1024_tokens", kv_json(group.per_1024_tokens)},
                      {"bytes_full_context", kv_json(group.full_context)}});
  json::object out = {{"family", facts.family.empty() ? json::value(nullptr) : json::value(facts.family)},
                      {"checked_against", facts.checked},
                      {"default_dtype", facts.default_dtype},
                      {"default_kv_cache_dtype", facts.default_kv_dtype},
                      {"fp8_kv_scales_of_layers", facts.scaled_layers},
                      {"kv_groups", std::move(groups)},
                      {"active_weight_bytes", facts.active_bytes}};
  if (facts.active_bytes > 0 && facts.memory_bytes_per_second > 0)
    out["speed_estimate"] = {{"memory_bytes_per_second", facts.memory_bytes_per_second},
                             {"tokens_per_second_at_most",
                              facts.memory_bytes_per_second / static_cast<double>(facts.active_bytes)}};
  return out;
}

}  // namespace

std::string describe_json(const Description& description) {
  json::object out = {{"path", valid_utf8(description.path)}, {"format", description.format}};
  if (description.version > 0) out["version"] = description.version;
  if (description.is_model) {
    out["architecture"] = valid_utf8(description.architecture);
    out["supported"] = description.supported;
    out["reason"] =
        description.supported ? json::value(nullptr) : json::value(valid_utf8(description.reason));
  }
  if (description.model) {
    out["config"] = config_json(*description.model);
  }
  if (description.facts) {
    const ServingFacts& facts = *description.facts;
    out["serving"] = facts_json(facts);
    const KvBytes some = sum_of(facts, &DescribedKvGroup::per_1024_tokens);
    out["kv_bytes_per_token"] = kv_json({.float32 = some.float32 / 1024,
                                         .bfloat16 = some.bfloat16 / 1024,
                                         .int8 = some.int8 / 1024,
                                         .fp8 = some.fp8 / 1024});
    out["memory"] = {{"weights_bytes", description.weight_bytes()},
                     {"kv_bytes_one_full_context", kv_json(sum_of(facts, &DescribedKvGroup::full_context))}};
  }
  if (description.is_model || !description.tensors.empty()) {
    out["num_tensors"] = description.tensors.size();
    out["parameters"] = description.parameters();
    out["weight_bytes"] = description.weight_bytes();
    json::object by_type;
    for (const auto& [type, bytes] : description.bytes_by_type()) by_type[type] = bytes;
    out["bytes_by_type"] = std::move(by_type);
  }
  json::object metadata;
  for (const auto& [key, value] : description.metadata) metadata[valid_utf8(key)] = value_json(value);
  out["metadata"] = std::move(metadata);
  json::array tensors;
  for (const DescribedTensor& tensor : description.tensors) {
    tensors.push_back({{"name", valid_utf8(tensor.name)},
                       {"dtype", tensor.type},
                       {"shape", json::value_from(tensor.shape)},
                       {"bytes", tensor.bytes}});
  }
  out["tensors"] = std::move(tensors);
  return plain_numbers(json::serialize(out));
}

std::string describe_table(const Description& description) {
  std::string out = printable(description.path, 1000) + "\n";
  Table summary;
  summary.row({"format", description.version > 0 ? concat(description.format, " v", description.version)
                                                 : description.format});
  if (description.is_model) {
    summary.row(
        {"architecture", description.architecture.empty() ? "none" : printable(description.architecture)});
    summary.row({"can be run", description.supported ? "yes" : concat("no: ", description.reason)});
  }
  if (description.model) config_rows(description, summary);
  if (description.facts) facts_rows(*description.facts, summary);
  if (!description.tensors.empty()) {
    summary.row({"parameters", concat(human_count(description.parameters()), " in ",
                                      description.tensors.size(), " tensors")});
    summary.row({"weights", concat(human_bytes(description.weight_bytes()),
                                   " as stored: ", description.stored_types())});
  }
  summary.append_to(out);
  if (!description.metadata.empty()) {
    out += "\nmetadata\n";
    Table table;
    for (const auto& [key, value] : description.metadata) table.row({printable(key, 60), value_text(value)});
    table.append_to(out);
  }
  if (!description.tensors.empty()) {
    out += "\ntensors\n";
    Table table;
    for (const DescribedTensor& tensor : description.tensors) {
      table.row({printable(tensor.name), tensor.type, shape_text(tensor.shape), human_bytes(tensor.bytes)});
    }
    table.append_to(out);
  }
  return out;
}

}  // namespace pagoda
