#include "loader/hyperparameters.h"

#include <algorithm>
#include <array>
#include <limits>
#include <ranges>

#include "base/strings.h"
#include "loader/field_effects.h"
#include "loader/gguf_names.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

constexpr std::size_t kMaxListed = 32;
constexpr std::size_t kMaxElements = 4096;

// True if the value disables the option, or is what holds without it.
bool is_off(std::string_view name, const json::value& value) {
  if (value.is_null() || value == false || value == 0 || value == "") return true;
  if (const json::array* list = value.if_array())
    return std::ranges::all_of(*list, [&](const json::value& each) {
      return name == "layer_types" && (each == "full_attention" || each == "attention");
    });
  return value.is_object() && value.get_object().empty();
}

bool is_zero(const json::value& value) { return value == 0 || value == 0.0 || value == false; }

std::optional<std::int32_t> to_int32(const json::value& value) {
  boost::system::error_code error;
  const auto number = value.is_number() ? value.to_number<std::int32_t>(error) : 0;
  if (!value.is_number() || error) return std::nullopt;
  return number;
}

json::value to_json(const GgufValue& value) {
  if (const auto* array = std::get_if<std::shared_ptr<GgufArray>>(&value)) {
    json::array list;
    const auto add = [&](const auto& elements) {
      for (std::size_t i = 0; i < elements.size() && i <= kMaxElements; ++i) {
        if constexpr (std::is_same_v<std::decay_t<decltype(elements)>, std::vector<bool>>)
          list.emplace_back(static_cast<bool>(elements[i]));
        else
          list.emplace_back(elements[i]);
      }
    };
    add((*array)->integers);
    add((*array)->floats);
    add((*array)->booleans);
    return list;
  }
  if (const auto* text = std::get_if<std::string>(&value)) return json::value(*text);
  if (const auto* boolean = std::get_if<bool>(&value)) return json::value(*boolean);
  if (const auto* number = std::get_if<double>(&value)) return json::value(*number);
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return json::value(*number);
  return json::value(std::get<std::int64_t>(value));
}

}  // namespace

std::string_view gguf_name(std::string_view field) {
  const auto name = std::ranges::find(kGgufNames, field, &GgufName::field);
  return name == kGgufNames.end() ? field : name->key;
}

std::string show(const json::value& value) {
  return value.is_double() ? concat(value.get_double()) : printable(json::serialize(value), 60);
}

Hyperparameters::Hyperparameters(const json::object& object, Status& status, std::string_view before)
    : object_(&object), status_(&status), before_(before) {}

Hyperparameters::Hyperparameters(const GgufFile& file, Status& status)
    : object_(&metadata_), gguf_(&file), status_(&status), before_("GGUF metadata '") {
  const std::string* const architecture = file.string("general.architecture");
  prefix_ = concat(architecture != nullptr ? *architecture : "", ".");
  for (const auto& [key, value] : file.metadata())
    if (key.starts_with(prefix_)) metadata_[std::string_view(key).substr(prefix_.size())] = to_json(value);
}

const json::value* Hyperparameters::find(std::string_view name) const {
  if (gguf_ != nullptr) name = gguf_name(name);
  read_names_.emplace(name);
  const json::value* value = object_->if_contains(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

const json::value* Hyperparameters::default_of(std::string_view name) const {
  return defaults_ != nullptr ? defaults_->if_contains(name) : nullptr;
}

const json::value* Hyperparameters::value_of(std::string_view name) const {
  const json::value* value = find(name);
  if (value == nullptr) value = default_of(name);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

bool Hyperparameters::written(std::string_view name) const {
  return object_->contains(gguf_ != nullptr ? gguf_name(name) : name);
}

std::int32_t Hyperparameters::integer(std::string_view name,
                                      std::optional<std::int32_t> default_value) const {
  const json::value* value = value_of(name);
  if (value == nullptr) {
    if (!default_value) fail(corrupt_data(concat(full_name(name), " is missing")));
    return default_value.value_or(0);
  }
  // GGUF may have a list of values that are equal for all layers.
  if (const json::array* list = value->if_array(); gguf_ != nullptr && list != nullptr && !list->empty()) {
    value = &list->front();
    if (std::ranges::any_of(*list, [&](const json::value& each) { return each != *value; }))
      refuse(concat(full_name(name), " differs between layers, which is not supported"));
  }
  const std::optional<std::int32_t> number = to_int32(*value);
  if (!number) fail(name, "an integer");
  return number.value_or(default_value.value_or(0));
}

float Hyperparameters::number(std::string_view name, std::optional<float> default_value) const {
  const json::value* value = value_of(name);
  if (value == nullptr && !default_value) fail(corrupt_data(concat(full_name(name), " is missing")));
  if (value == nullptr) return default_value.value_or(1.0f);
  if (value->is_number()) return static_cast<float>(value->to_number<double>());
  fail(name, "a number");
  return default_value.value_or(1.0f);
}

std::int32_t Hyperparameters::nullable_integer(std::string_view name, std::int32_t none) const {
  return is_null(name) ? none : integer(name, none);
}

float Hyperparameters::nullable_number(std::string_view name, float none) const {
  return is_null(name) ? none : number(name, none);
}

bool Hyperparameters::boolean(std::string_view name, bool default_value) const {
  const json::value* value = value_of(name);
  if (value == nullptr) return default_value;
  if (value->is_bool()) return value->get_bool();
  fail(name, "true or false");
  return default_value;
}

std::string Hyperparameters::string(std::string_view name, std::string_view default_value) const {
  const json::value* value = value_of(name);
  if (value == nullptr) return std::string(default_value);
  if (value->is_string()) return std::string(value->get_string());
  fail(name, "a string");
  return std::string(default_value);
}

const json::object* Hyperparameters::object(std::string_view name) const {
  const json::value* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_object()) fail(name, "an object");
  return value->if_object();
}

const json::array* Hyperparameters::list(std::string_view name) const {
  const json::value* const value = find(name);
  return value != nullptr ? value->if_array() : nullptr;
}

std::vector<std::int32_t> Hyperparameters::integers(std::string_view name) const {
  std::vector<std::int32_t> out;
  const json::value* value = value_of(name);
  if (value == nullptr) return out;
  const auto take = [&](const json::value& element) {
    if (const std::optional<std::int32_t> number = to_int32(element)) {
      if (std::ranges::find(out, *number) == out.end()) out.push_back(*number);
    } else {
      fail(name, "an integer or a list of integers");
    }
  };
  if (!value->is_array()) {
    take(*value);
  } else if (value->get_array().size() > kMaxElements) {
    fail(name, "a list of at most 4096 integers");
  } else {
    for (const json::value& element : value->get_array()) take(element);
  }
  return out;
}

std::vector<float> Hyperparameters::numbers(std::string_view name) const {
  std::vector<float> out;
  const json::array* const all = list(name);
  if (all != nullptr && all->size() <= kMaxElements)
    for (const json::value& each : *all)
      if (each.is_number()) out.push_back(static_cast<float>(each.to_number<double>()));
  if (all == nullptr || out.size() != all->size() || out.empty()) fail(name, "a list of numbers");
  return out;
}

std::vector<bool> Hyperparameters::flags(std::string_view name, std::int32_t count) const {
  std::vector<bool> out;
  const json::array* const all = list(name);
  if (all != nullptr && all->size() == static_cast<std::size_t>(count))
    for (const json::value& each : *all)
      if (each == 0 || each == 1) out.push_back(each == 1);
  if (out.size() != static_cast<std::size_t>(count)) fail(name, "a 0 or 1 for each layer");
  return out;
}

std::vector<bool> Hyperparameters::booleans(std::string_view name) const {
  std::vector<bool> out;
  if (const json::array* const all = list(name))
    for (const json::value& each : *all)
      if (each.is_bool()) out.push_back(each.get_bool());
  return out;
}

std::vector<std::int32_t> Hyperparameters::of_layers(std::string_view name, std::int32_t count,
                                                     std::optional<std::int32_t> default_value) const {
  std::vector<std::int32_t> out;
  const json::array* const all = list(name);
  if (all == nullptr || all->empty() || !all->front().is_number()) {
    out.assign(static_cast<std::size_t>(std::clamp(count, 0, 4096)), integer(name, default_value));
    return out;
  }
  for (const json::value& each : *all) {
    boost::system::error_code error;
    const auto wide = each.to_number<std::int64_t>(error);
    out.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(error ? -1 : wide, -1, 1 << 30)));
  }
  if (out.size() != static_cast<std::size_t>(std::max(count, 0))) {
    fail(corrupt_data(concat(full_name(name), " has ", out.size(), " entries for ", count, " layers")));
    out.clear();
  }
  return out;
}

void Hyperparameters::without_effect(std::string_view names) const {
  for (const auto name : std::views::split(names, ' ')) find(std::string_view(name.begin(), name.end()));
}

void Hyperparameters::only(std::string_view name, const json::value& harmless) const {
  const json::value* value = find(name);
  if (value == nullptr || *value == harmless) return;
  refuse(concat(full_name(name), " = ", show(*value), " is not supported; supported: ", show(harmless)));
}

std::set<std::string_view> Hyperparameters::tensor_names() const {
  std::set<std::string_view> names;
  if (gguf_ != nullptr)
    for (const FileTensor& tensor : gguf_->tensor_list()) names.insert(tensor.name);
  return names;
}

bool Hyperparameters::has_tensor(std::string_view name) const {
  return gguf_ != nullptr &&
         std::ranges::find(gguf_->tensor_list(), name, &FileTensor::name) != gguf_->tensor_list().end();
}

std::vector<std::string> Hyperparameters::refuse_unread(std::string_view where) const {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : *object_) {
    const std::string_view name = key;
    if (read_names_.contains(name) || (gguf_ != nullptr ? is_zero(value) : is_off(name, value))) continue;
    switch (gguf_ != nullptr ? effect_of_key(name) : effect_of(name)) {
      case FieldEffect::none:
        break;
      case FieldEffect::computes:
        refuse(gguf_ != nullptr
                   ? concat("GGUF option '", printable(concat(prefix_, name)), "' is not supported")
                   : concat("config.json: '", where, name, "' = ", show(value),
                            " is not supported for this architecture"));
        break;
      case FieldEffect::unknown:
        if (unknown.size() < kMaxListed) unknown.push_back(printable(concat(where, prefix_, name), 100));
        break;
    }
  }
  return unknown;
}

void Hyperparameters::fail(std::string_view name, std::string_view expected) const {
  fail(corrupt_data(concat(full_name(name), " must be ", expected)));
}

void Hyperparameters::fail(Status status) const {
  if (status_->ok()) *status_ = std::move(status);
}

void Hyperparameters::corrupt(std::string message) const { fail(corrupt_data(std::move(message))); }

void Hyperparameters::refuse(std::string message) const { fail(unimplemented(std::move(message))); }

std::string Hyperparameters::full_name(std::string_view name) const {
  return concat(before_, prefix_, gguf_ != nullptr ? gguf_name(name) : name, "'");
}

}  // namespace pagoda
