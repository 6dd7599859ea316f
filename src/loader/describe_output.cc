// Writes a Description as JSON and as a table for people.
#include <boost/json.hpp>
#include <cmath>

#include "base/strings.h"
#include "loader/describe.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace json = boost::json;

constexpr std::size_t kArrayPreview = 8;

json::value number_json(double value) {
  return std::isfinite(value) ? json::value(value) : json::value(nullptr);
}

json::value array_json(const GgufArray& array) {
  json::array first;
  std::string_view element;
  const std::size_t count = std::min(array.size(), kArrayPreview);
  switch (array.element) {
    case GgufElement::integer:
      element = "integer";
      for (std::size_t i = 0; i < count; ++i) first.emplace_back(array.integers[i]);
      break;
    case GgufElement::floating:
      element = "float";
      for (std::size_t i = 0; i < count; ++i) first.push_back(number_json(array.floats[i]));
      break;
    case GgufElement::string:
      element = "string";
      for (std::size_t i = 0; i < count; ++i)
        first.emplace_back(valid_utf8(array.strings[i].substr(0, 1000)));
      break;
    case GgufElement::boolean:
      element = "boolean";
      for (std::size_t i = 0; i < count; ++i) first.emplace_back(static_cast<bool>(array.booleans[i]));
      break;
  }
  return json::object{{"array_of", element}, {"count", array.size()}, {"first", std::move(first)}};
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
  switch (scaling) {
    case RopeScaling::none:
      return "none";
    case RopeScaling::linear:
      return "linear";
    case RopeScaling::llama3:
      return "llama3";
    case RopeScaling::yarn:
      return "yarn";
    case RopeScaling::longrope:
      return "longrope";
  }
  return "";
}

std::int32_t num_window_layers(const ModelConfig& config) {
  std::int32_t count = 0;
  for (std::int32_t layer = 0; layer < config.num_layers; ++layer) count += config.has_window(layer) ? 1 : 0;
  return count;
}

json::object config_json(const ModelConfig& config) {
  json::object out = {
      {"architecture", config.architecture},
      {"name", valid_utf8(config.name)},
      {"vocab_size", config.vocab_size},
      {"hidden_size", config.hidden_size},
      {"num_layers", config.num_layers},
      {"num_heads", config.num_heads},
      {"num_kv_heads", config.num_kv_heads},
      {"head_size", config.head_size},
      {"intermediate_size", config.intermediate_size},
      {"embedding_size", config.embedding_size},
      {"max_positions", config.max_positions},
      {"norm_eps", config.norm_eps},
      {"activation", config.activation},
      {"tie_embeddings", config.tie_embeddings},
      {"weight_type", config.weight_type},
      {"bos_token_id", config.bos_token_id < 0 ? json::value(nullptr) : json::value(config.bos_token_id)},
      {"eos_token_ids", json::value_from(config.eos_token_ids)},
      {"pad_token_id", config.pad_token_id < 0 ? json::value(nullptr) : json::value(config.pad_token_id)},
      {"sliding_window",
       config.sliding_window == 0 ? json::value(nullptr) : json::value(config.sliding_window)},
  };
  if (config.sliding_window > 0) out["window_layers"] = num_window_layers(config);
  if (config.latent.rank > 0) out["latent_row"] = config.latent.row_size();
  if (config.num_recurrent() > 0) out["recurrent_layers"] = config.num_recurrent();
  if (config.rotary_size > 0) {
    out["rope_theta"] = config.rope_theta;
    out["rotary_size"] = config.rotary_size;
    out["rope_scaling"] = rope_scaling_name(config.rope_scaling);
    if (config.rope_scaling != RopeScaling::none) out["rope_factor"] = config.rope_factor;
  }
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

// Rows of cells as aligned columns, two blanks before and between.
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
  static std::size_t width(std::string_view text) {  // characters, not bytes
    std::size_t count = 0;
    for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    return count;
  }
  std::vector<std::vector<std::string>> rows_;
};

void config_rows(const Description& description, Table& table) {
  const ModelConfig& config = *description.config;
  if (!config.name.empty()) table.row({"name", printable(config.name)});
  table.row({"layers", concat(config.num_layers)});
  table.row({"hidden size", concat(config.hidden_size, ", feed-forward ", config.intermediate_size)});
  const LatentConfig& latent = config.latent;
  table.row(
      {"attention", concat(config.num_heads, " heads of ", config.head_size, ", ",
                           latent.rank > 0 ? concat("one latent row of ", latent.rank, " + ",
                                                    latent.rope_size, " a token for all of them")
                                           : concat(config.num_kv_heads, " for keys and values"),
                           config.sliding_window > 0 ? concat(", window ", config.sliding_window, " in ",
                                                              num_window_layers(config), " layers")
                                                     : "")});
  table.row({"vocabulary", concat(config.vocab_size, config.tie_embeddings ? ", embeddings tied" : "")});
  table.row({"context", concat(config.max_positions, " tokens")});
  const std::int64_t f32 = description.kv_bytes_per_token(4), bf16 = description.kv_bytes_per_token(2),
                     int8 = description.kv_bytes_per_token_int8();
  const auto of_tokens = [&](std::string_view what, std::int64_t tokens) {
    return concat(what, " ", human_bytes(bf16 * tokens), " in bfloat16, ",
                  int8 > 0 ? concat(human_bytes(int8 * tokens), " in int8, ") : std::string(),
                  human_bytes(f32 * tokens), " in float32");
  };
  table.row({"KV cache", of_tokens("per token", 1)});
  if (const std::int64_t state = description.state_bytes(); state > 0)
    table.row({"", concat("and per sequence a state of ", human_bytes(state), ", of ", config.num_recurrent(),
                          " layers without keys and values")});
  table.row({"", of_tokens("one full context", config.max_positions)});
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
  if (description.config) {
    const std::int64_t f32 = description.kv_bytes_per_token(4), bf16 = description.kv_bytes_per_token(2),
                       int8 = description.kv_bytes_per_token_int8();
    out["config"] = config_json(*description.config);
    const auto in_int8 = [&](std::int64_t tokens) {
      return int8 > 0 ? json::value(int8 * tokens) : json::value(nullptr);
    };
    out["kv_bytes_per_token"] = {{"float32", f32}, {"bfloat16", bf16}, {"int8", in_int8(1)}};
    out["state_bytes"] = description.state_bytes();
    out["memory"] = {{"weights_bytes", description.weight_bytes()},
                     {"kv_bytes_one_full_context",
                      {{"float32", f32 * description.config->max_positions},
                       {"bfloat16", bf16 * description.config->max_positions},
                       {"int8", in_int8(description.config->max_positions)}}}};
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
  return json::serialize(out);
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
  if (description.config) config_rows(description, summary);
  if (!description.tensors.empty()) {
    summary.row({"parameters", concat(human_count(description.parameters()), " in ",
                                      description.tensors.size(), " tensors")});
    summary.row({"weights", concat(human_bytes(description.weight_bytes()),
                                   " as stored: ", describe_types(description.bytes_by_type()))});
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
