// The JSON form of a cost model.
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/strings.h"
#include "sim/cost_model.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kMaxPoints = 10'000;

struct WholeField {
  std::string_view name;
  std::int32_t CostModel::* member;
};
constexpr std::array kWholeFields = {
    WholeField{"num_layers", &CostModel::num_layers},
    WholeField{"hidden_size", &CostModel::hidden_size},
    WholeField{"vocab_size", &CostModel::vocab_size},
    WholeField{"max_model_len", &CostModel::max_model_len},
    WholeField{"tensor_parallel_size", &CostModel::tensor_parallel_size},
};

// Optional; 0 if absent.
constexpr WholeField kBatchedTokens = {"max_num_batched_tokens", &CostModel::max_num_batched_tokens};

struct NumberField {
  std::string_view name;
  double CostModel::* member;
};
constexpr std::array kNumberFields = {
    NumberField{"parameters", &CostModel::parameters},
    NumberField{"head_parameters", &CostModel::head_parameters},
    NumberField{"bytes_per_parameter", &CostModel::bytes_per_parameter},
    NumberField{"attention_width", &CostModel::attention_width},
    NumberField{"kv_bytes_per_token", &CostModel::kv_bytes_per_token},
    NumberField{"kv_cache_bytes", &CostModel::kv_cache_bytes},
    NumberField{"memory_bytes_per_s", &CostModel::memory_bytes_per_s},
    NumberField{"flops_per_s", &CostModel::flops_per_s},
    NumberField{"attention_bytes_per_s", &CostModel::attention_bytes_per_s},
    NumberField{"attention_flops_per_s", &CostModel::attention_flops_per_s},
    NumberField{"link_bytes_per_s", &CostModel::link_bytes_per_s},
    NumberField{"link_latency_s", &CostModel::link_latency_s},
    NumberField{"swap_bytes_per_s", &CostModel::swap_bytes_per_s},
    NumberField{"swap_block_s", &CostModel::swap_block_s},
    NumberField{"step_overhead_s", &CostModel::step_overhead_s},
    NumberField{"sequence_overhead_s", &CostModel::sequence_overhead_s},
    NumberField{"token_overhead_s", &CostModel::token_overhead_s},
};
// Optional; 0 if absent.
constexpr std::array kOptionalFields = {
    NumberField{"request_overhead_s", &CostModel::request_overhead_s},
    NumberField{"map_page_bytes", &CostModel::map_page_bytes},
    NumberField{"map_call_s", &CostModel::map_call_s},
    NumberField{"map_page_s", &CostModel::map_page_s},
    NumberField{"unmap_page_s", &CostModel::unmap_page_s},
    NumberField{"outside_s", &CostModel::outside_s},
    NumberField{"fit_error", &CostModel::fit_error},
    NumberField{"fitted_steps", &CostModel::fitted_steps},
    NumberField{"fitted_sequences", &CostModel::fitted_sequences},
    NumberField{"scatter_correlation", &CostModel::scatter_correlation},
    NumberField{"scatter_share", &CostModel::scatter_share},
};

Status bad(std::string_view field, std::string_view what) {
  return invalid_argument(concat("cost model: ", field, ' ', what)).with_param(std::string(field));
}

std::optional<double> number_of(const boost::json::value& value) {
  if (!value.is_number()) return std::nullopt;
  return value.to_number<double>();
}

Status read_points(const boost::json::value& value, std::vector<CostModel::Point>& out) {
  if (!value.is_array()) return bad("linear_points", "must be a list of [tokens, seconds]");
  const boost::json::array& points = value.get_array();
  if (points.size() > kMaxPoints)
    return bad("linear_points", concat("has more than ", kMaxPoints, " points"));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const auto* pair = points[i].if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_number() || !(*pair)[1].is_number())
      return bad(concat("linear_points.", i), "must be [tokens, seconds]");
    out.push_back({*number_of((*pair)[0]), *number_of((*pair)[1])});
  }
  return ok_status();
}

Status read_efficiency(const boost::json::value& value, std::vector<CostModel::Efficiency>& out) {
  constexpr std::string_view kKey = "paged_read_efficiency";
  if (!value.is_array() || value.get_array().size() > kMaxPoints)
    return bad(kKey, "must be a list of [block size, share]");
  for (const boost::json::value& entry : value.get_array()) {
    const auto* pair = entry.if_array();
    if (pair == nullptr || pair->size() != 2 || !(*pair)[0].is_number() || !(*pair)[1].is_number())
      return bad(concat(kKey, '.', out.size()), "must be [block size, share]");
    const double size = *number_of((*pair)[0]);
    if (size != std::floor(size) || size < 1 || size > std::numeric_limits<std::int32_t>::max())
      return bad(concat(kKey, '.', out.size()), "must have a whole block size");
    out.push_back({static_cast<std::int32_t>(size), *number_of((*pair)[1])});
  }
  return ok_status();
}

Status read_quantiles(std::string_view key, const boost::json::value& value, std::vector<double>& out) {
  if (!value.is_array() || value.get_array().size() > kMaxPoints)
    return bad(key, concat("must be a list of at most ", kMaxPoints, " numbers"));
  for (const boost::json::value& entry : value.get_array()) {
    const auto number = number_of(entry);
    if (!number) return bad(concat(key, '.', out.size()), "must be a number");
    out.push_back(*number);
  }
  return ok_status();
}

Status read_field(std::string_view key, const boost::json::value& value, CostModel& out) {
  const auto read_whole = [&](const WholeField& field) {
    const auto number = number_of(value);
    if (!number || *number != std::floor(*number) || std::abs(*number) > std::numeric_limits<int>::max())
      return bad(key, "must be a whole number");
    out.*field.member = static_cast<std::int32_t>(*number);
    return ok_status();
  };
  for (const WholeField& field : kWholeFields)
    if (field.name == key) return read_whole(field);
  if (key == kBatchedTokens.name) return read_whole(kBatchedTokens);
  const auto read_number = [&](const NumberField& field) {
    const auto number = number_of(value);
    if (!number) return bad(key, "must be a number");
    out.*field.member = *number;
    return ok_status();
  };
  for (const NumberField& field : kNumberFields)
    if (field.name == key) return read_number(field);
  for (const NumberField& field : kOptionalFields)
    if (field.name == key) return read_number(field);
  if (key == "paged_read_efficiency") return read_efficiency(value, out.paged_read_efficiency);
  if (key == "decode_scatter") return read_quantiles(key, value, out.decode_scatter);
  if (key == "prompt_scatter") return read_quantiles(key, value, out.prompt_scatter);
  if (key == "linear_points") return read_points(value, out.linear_points);
  if (key == "name") {
    if (!value.is_string()) return bad(key, "must be a string");
    out.name = std::string(value.get_string());
    return ok_status();
  }
  if (key == "computes_padding") {
    if (!value.is_bool()) return bad(key, "must be true or false");
    out.computes_padding = value.get_bool();
    return ok_status();
  }
  if (key == "comment") return ok_status();
  return bad(key, "is not a field of a cost model");
}

}  // namespace

Result<CostModel> parse_cost_model(std::string_view json) {
  boost::system::error_code error;
  const boost::json::value value = boost::json::parse(json, error);
  if (error || !value.is_object()) return invalid_argument("not a cost model: not a JSON object");
  CostModel out;
  const boost::json::object& object = value.get_object();
  for (const auto& [key, entry] : object) PAGODA_RETURN_IF_ERROR(read_field(key, entry, out));
  for (const WholeField& field : kWholeFields)
    if (!object.contains(field.name)) return bad(field.name, "is missing");
  for (const NumberField& field : kNumberFields)
    if (!object.contains(field.name)) return bad(field.name, "is missing");
  PAGODA_RETURN_IF_ERROR(validate(out));
  return out;
}

std::string cost_model_json(const CostModel& model) {
  // Written by hand for a stable, readable layout: one field per line.
  const auto number = [](double value) {
    char buffer[40];
    const int length = std::snprintf(buffer, sizeof buffer, "%.9g", value);
    return std::string(buffer, static_cast<std::size_t>(length));
  };
  std::string out = concat("{\n  \"name\": ", boost::json::serialize(boost::json::string(model.name)));
  for (const WholeField& field : kWholeFields)
    out += concat(",\n  \"", field.name, "\": ", model.*field.member);
  if (model.max_num_batched_tokens > 0)
    out += concat(",\n  \"", kBatchedTokens.name, "\": ", model.max_num_batched_tokens);
  for (const NumberField& field : kNumberFields)
    out += concat(",\n  \"", field.name, "\": ", number(model.*field.member));
  for (const NumberField& field : kOptionalFields)
    if (model.*field.member > 0) out += concat(",\n  \"", field.name, "\": ", number(model.*field.member));
  if (!model.paged_read_efficiency.empty()) {
    out += ",\n  \"paged_read_efficiency\": [";
    for (std::size_t i = 0; i < model.paged_read_efficiency.size(); ++i) {
      const auto& [block_size, share] = model.paged_read_efficiency[i];
      out += concat(i > 0 ? ", [" : "[", block_size, ", ", number(share), "]");
    }
    out += "]";
  }
  if (model.computes_padding) out += ",\n  \"computes_padding\": true";
  if (!model.linear_points.empty()) {
    out += ",\n  \"linear_points\": [";
    for (std::size_t i = 0; i < model.linear_points.size(); ++i) {
      const CostModel::Point& point = model.linear_points[i];
      out += concat(i > 0 ? ", [" : "[", number(point.tokens), ", ", number(point.seconds), "]");
    }
    out += "]";
  }
  const auto add_quantiles = [&](std::string_view name, const std::vector<double>& quantiles) {
    if (quantiles.empty()) return;
    out += concat(",\n  \"", name, "\": [");
    for (std::size_t i = 0; i < quantiles.size(); ++i) out += concat(i > 0 ? ", " : "", number(quantiles[i]));
    out += "]";
  };
  add_quantiles("decode_scatter", model.decode_scatter);
  add_quantiles("prompt_scatter", model.prompt_scatter);
  return out + "\n}\n";
}

Result<CostModel> load_cost_model(const std::string& name_or_path) {
  auto named = named_cost_model(name_or_path);
  if (named || named.error().code() != StatusCode::not_found) return named;
  std::error_code error;
  if (!std::filesystem::is_regular_file(name_or_path, error)) return named.error();
  if (std::filesystem::file_size(name_or_path, error) > kMaxFileBytes || error)
    return invalid_argument(concat("cost model: ", name_or_path, " is larger than 1 MiB"));
  std::ifstream file(name_or_path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return not_found(concat("cost model: cannot read ", name_or_path));
  auto parsed = parse_cost_model(text.str());
  if (!parsed) return parsed.error().annotate(name_or_path);
  return parsed;
}

}  // namespace pagoda
