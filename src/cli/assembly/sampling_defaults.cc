#include "cli/assembly/sampling_defaults.h"

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <filesystem>

#include "base/assign_or_return.h"
#include "base/log.h"
#include "base/plain_numbers.h"
#include "base/strings.h"
#include "loader/json_object.h"
#include "loader/mapped_file.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

namespace json = boost::json;

// The fields, with the same bounds as in requests.
struct Field {
  std::string_view name;
  double least = 0, most = 0;
  bool above = false;  // `least` itself is not allowed
  bool whole = false;
};
constexpr std::size_t kMaxBytes = std::size_t{1} << 20;  // limit for generation_config.json
constexpr std::array<Field, 6> kFields = {{{"temperature", 0, 100},
                                           {"top_p", 0, 1, true},
                                           {"top_k", -1, 1e9, false, true},
                                           {"min_p", 0, 1},
                                           {"repetition_penalty", 0, 100, true},
                                           {"max_new_tokens", 1, 1e9, false, true}}};

// Returns the reason why a value is invalid; empty if it is valid.
std::string fault_of(const Field& field, const json::value& value) {
  if (!value.is_number()) return "is not a number";
  const auto number = value.to_number<double>();
  if (field.whole && number != std::trunc(number)) return "is not a whole number";
  if (field.above && number <= field.least) return concat("is not above ", field.least);
  if (number < field.least) return concat("is below ", field.least);
  return number > field.most ? concat("is above ", field.most) : "";
}

Status check_overrides(const json::object& overrides) {
  for (const auto& [key, value] : overrides) {
    const auto field = std::ranges::find(kFields, std::string_view(key), &Field::name);
    if (field == kFields.end())
      return invalid_argument(concat("--override-generation-config: '", std::string_view(key),
                                     "' is not supported; supported: temperature, top_p, top_k, min_p, "
                                     "repetition_penalty, max_new_tokens"));
    if (value.is_null()) continue;
    if (const std::string fault = fault_of(*field, value); !fault.empty())
      return invalid_argument(concat("--override-generation-config: '", field->name, "' ", fault));
  }
  return ok_status();
}

// The corresponding fields in GGUF metadata, as written by llama.cpp's converter and read by llama.cpp.
json::object written_in(const GgufFile& file) {
  json::object fields;
  for (const auto& [key, field] : {std::pair("temp", "temperature"),
                                   {"top_p", "top_p"},
                                   {"top_k", "top_k"},
                                   {"min_p", "min_p"},
                                   {"penalty_repeat", "repetition_penalty"}})
    if (const std::optional<double> value = file.number(concat("general.sampling.", key)))
      fields[field] = *value;
  return fields;
}

// Fields that affect transformers but not this program, each with the value that disables it.
struct UnusedField {
  std::string_view name, off;
};
constexpr UnusedField kUnused[] = {
    {"suppress_tokens", "[]"},    {"begin_suppress_tokens", "[]"}, {"forced_bos_token_id", ""},
    {"forced_eos_token_id", ""},  {"forced_decoder_ids", "[]"},    {"bad_words_ids", "[]"},
    {"sequence_bias", "{}"},      {"stop_strings", "[]"},          {"no_repeat_ngram_size", "0"},
    {"min_length", "0"},          {"min_new_tokens", "0"},         {"num_beams", "1"},
    {"typical_p", "1.0"},         {"penalty_alpha", "0.0"},        {"guidance_scale", "1.0"},
    {"epsilon_cutoff", "0.0"},    {"eta_cutoff", "0.0"},           {"exponential_decay_length_penalty", "[]"},
    {"watermarking_config", "{}"}};

void name_unused(const json::object& file, std::string_view name) {
  std::string names;
  for (const UnusedField& field : kUnused) {
    const json::value* value = file.if_contains(field.name);
    if (value == nullptr || value->is_null()) continue;
    const json::value off = field.off.empty() ? json::value() : json::parse(field.off);
    const bool same_number =
        value->is_number() && off.is_number() && value->to_number<double>() == off.to_number<double>();
    if (*value == off || same_number) continue;
    names.append(names.empty() ? "" : ", ").append(field.name);
  }
  if (!names.empty()) log_warning("start", concat(name, ": without effect here: ", names));
}

// Returns the model's fields without the invalid ones, which are logged here once.
json::object usable(const json::object& file, std::string_view name) {
  json::object fields;
  name_unused(file, name);
  for (const Field& field : kFields) {
    const json::value* value = file.if_contains(field.name);
    if (value == nullptr || value->is_null()) continue;
    if (const std::string fault = fault_of(field, *value); fault.empty())
      fields[field.name] = *value;
    else
      log_warning("start", concat(name, ": '", field.name,
                                  "' = ", printable(plain_numbers(json::serialize(*value)), 60), " ", fault,
                                  "; it is ignored"));
  }
  return fields;
}

// Models whose files set no sampling, with the values that their authors recommend. Models of script/model
// come first.
struct ModelRow {
  std::string_view name;  // '*' stands for any text
  std::string_view fields;
};
constexpr ModelRow kModels[] = {
    {"SmolLM2-*-Instruct*", R"({"temperature": 0.2, "top_p": 0.9})"},
    {"gemma-3-*", R"({"temperature": 1.0, "top_k": 64, "top_p": 0.95})"},
};

// The model's name from its path: that of the file or folder, or of the repository in the Hugging Face cache.
std::string name_of(const ModelSource& source) {
  std::filesystem::path path(source.path());
  if (path.filename().empty()) path = path.parent_path();
  for (const std::filesystem::path& part : path) {
    const std::string text = part.string();
    if (text.starts_with("models--")) return text.substr(text.rfind("--") + 2);
  }
  return path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
}

json::object row_of_model(const ModelSource& source) {
  const std::string name = name_of(source);
  for (const ModelRow& model : kModels)
    if (matches_pattern(name, model.name)) return json::parse(model.fields).get_object();
  return {};
}

// Returns the model's own defaults: from its files, or else from the table.
json::object fields_of_model(const ModelSource& source) {
  json::object fields;
  if (source.gguf() != nullptr) {
    fields = usable(written_in(*source.gguf()), "general.sampling");
  } else if (const auto text = source.side_file("generation_config.json")) {
    // A malformed file was already reported with the model's config.
    if (const auto file = parse_json_object(*text, "generation_config.json"))
      fields = usable(*file, "generation_config.json");
  }
  return fields.empty() ? row_of_model(source) : fields;
}

// Reads the source selected by --generation-config.
Result<json::object> fields_named(const std::string& name, const ModelSource& source) {
  if (name == "vllm") return json::object();
  if (name == "auto") return fields_of_model(source);
  std::error_code error;
  const std::string path =
      std::filesystem::is_directory(name, error) ? concat(name, "/generation_config.json") : name;
  const auto text = read_text_file(path, kMaxBytes);
  if (!text) return text.error().annotate("--generation-config");
  const auto file = parse_json_object(*text, path);
  if (!file) return file.error().annotate("--generation-config");
  return usable(*file, path);
}

}  // namespace

Result<SamplingDefaults> sampling_defaults(const ModelSource& source, std::string_view overrides,
                                           const std::string& generation_config) {
  PAGODA_ASSIGN_OR_RETURN(auto named, fields_named(generation_config, source));
  json::object fields = std::move(named);
  if (!overrides.empty()) {
    boost::system::error_code error;
    const json::value given = json::parse(overrides, error);
    if (error || !given.is_object())
      return invalid_argument("--override-generation-config is not a JSON object");
    PAGODA_RETURN_IF_ERROR(check_overrides(given.get_object()));
    for (const auto& [key, value] : given.get_object()) fields[key] = value;
  }
  SamplingDefaults defaults;
  const auto number = [&](std::string_view key) -> std::optional<float> {
    const json::value* value = fields.if_contains(key);
    if (value == nullptr || value->is_null()) return std::nullopt;
    return static_cast<float>(value->to_number<double>());
  };
  defaults.temperature = number("temperature");
  defaults.top_p = number("top_p");
  defaults.min_p = number("min_p");
  defaults.repetition_penalty = number("repetition_penalty");
  if (const auto top_k = number("top_k")) defaults.top_k = static_cast<std::int32_t>(*top_k);
  if (const auto tokens = number("max_new_tokens")) defaults.max_tokens = static_cast<std::int32_t>(*tokens);
  return defaults;
}

SamplingDefaults with_flags(SamplingDefaults defaults, const SamplingFlags& flags) {
  const auto assign = [](auto& field, const auto& given) {
    if (given) field = static_cast<typename std::decay_t<decltype(field)>::value_type>(*given);
  };
  assign(defaults.temperature, flags.temperature);
  assign(defaults.top_p, flags.top_p);
  assign(defaults.min_p, flags.min_p);
  assign(defaults.repetition_penalty, flags.repetition_penalty);
  assign(defaults.top_k, flags.top_k);
  assign(defaults.max_tokens, flags.max_tokens);
  return defaults;
}

std::string describe(const SamplingDefaults& defaults) {
  std::string fields = concat("temperature ", defaults.temperature.value_or(1));
  const auto add = [&](std::string_view name, const auto& value) {
    if (value) fields += concat(", ", name, " ", *value);
  };
  add("top_p", defaults.top_p);
  add("top_k", defaults.top_k);
  add("min_p", defaults.min_p);
  add("repetition_penalty", defaults.repetition_penalty);
  add("max_tokens", defaults.max_tokens);
  return concat("default sampling parameters: ", fields);
}

}  // namespace pagoda
