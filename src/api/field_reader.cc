#include "api/field_reader.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <cmath>

#include "api/field_recorder.h"
#include "base/sentence.h"
#include "base/strings.h"

namespace pagoda {

namespace json = boost::json;

namespace {

// Set during a typed read, so that raw() does not record the field as "any value".
thread_local bool is_typed_read = false;

// Returns the value, recorded with `schema()`.
template <class Schema>
const json::value* typed_as(const FieldReader& reader, std::string_view name, const Schema& schema) {
  if (FieldRecorder* recorder = FieldRecorder::current()) recorder->note(reader.path_of(name), schema());
  is_typed_read = true;
  const json::value* value = reader.raw(name);
  is_typed_read = false;
  return value;
}
const json::value* typed(const FieldReader& reader, std::string_view name, std::string_view type) {
  return typed_as(reader, name, [&] { return json::object{{"type", type}}; });
}

}  // namespace

std::optional<std::int64_t> whole_number(const json::value& value) {
  if (const std::int64_t* number = value.if_int64()) return *number;
  if (value.is_uint64()) return std::nullopt;  // beyond int64: larger than any field's limit
  if (const double* number = value.if_double()) {
    constexpr double kExact = 9007199254740992.0;  // 2^53: beyond it a double is not exact
    if (!std::isfinite(*number) || std::abs(*number) > kExact || std::trunc(*number) != *number)
      return std::nullopt;
    return static_cast<std::int64_t>(*number);
  }
  return std::nullopt;
}

Result<std::vector<TokenId>> read_token_ids(const json::array& array, const std::string& path,
                                            std::int32_t vocab_size) {
  std::vector<TokenId> ids;
  ids.reserve(array.size());
  for (std::size_t i = 0; i < array.size(); ++i) {
    const std::optional<std::int64_t> id = whole_number(array[i]);
    if (!id)
      return invalid_argument(concat("'", path, ".", i, "' must be a token id (a whole number)."))
          .with_param(concat(path, ".", i));
    if (*id < 0 || *id >= vocab_size)
      return invalid_argument(concat("'", path, ".", i, "' is token id ", *id, ", outside the vocabulary of ",
                                     vocab_size, " tokens."))
          .with_param(concat(path, ".", i));
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

const json::value* FieldReader::raw(std::string_view name,
                                    std::initializer_list<std::string_view> types) const {
  if (FieldRecorder* recorder = is_typed_read ? nullptr : FieldRecorder::current()) {
    if (types.size() == 0) recorder->note(path_of(name), {});
    for (const std::string_view type : types) recorder->note(path_of(name), {{"type", type}});
  }
  return find(name);
}

const json::value* FieldReader::find(std::string_view name) const {
  const json::value* value = object_.if_contains(name);
  if (value != nullptr) read_names_.emplace_back(name);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::vector<std::string_view> FieldReader::unread() const {
  std::vector<std::string_view> names;
  for (const auto& entry : object_) {
    if (entry.value().is_null()) continue;
    const std::string_view name(entry.key().data(), entry.key().size());
    if (std::ranges::find(read_names_, name) == read_names_.end()) names.push_back(name);
  }
  return names;
}

Status bad_field(std::string_view param, std::string_view problem) {
  return invalid_argument(with_full_stop(concat("'", param, "' ", problem))).with_param(std::string(param));
}

std::string FieldReader::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : concat(path_, ".", name);
}

void FieldReader::fail(std::string_view name, std::string_view problem) {
  const std::string path = path_of(name);
  if (FieldRecorder* recorder = FieldRecorder::current(); recorder != nullptr && problem == "is required")
    recorder->note_required(path);
  fail(bad_field(path, problem));
}

void FieldReader::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void FieldReader::not_built(std::string_view name, std::string_view why) {
  if (FieldRecorder* recorder = FieldRecorder::current()) {
    recorder->note(path_of(name), {{"type", "boolean"}, {"enum", {false}}});
    recorder->note(path_of(name), {{"type", "array"}, {"maxItems", 0}});
  }
  const json::value* value = find(name);
  if (value == nullptr) return;
  if (value->is_bool() && !value->as_bool()) return;
  if (value->is_array() && value->as_array().empty()) return;
  const std::string path = path_of(name);
  fail(unimplemented(with_full_stop(concat("'", path, "' is not supported: ", why)))
           .with_param(path)
           .with_reason("unsupported_parameter"));
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name, std::int64_t low, std::int64_t high) {
  const json::value* value = typed_as(
      *this, name, [&] { return json::object{{"type", "integer"}, {"minimum", low}, {"maximum", high}}; });
  if (value == nullptr || !ok()) return std::nullopt;
  const std::optional<std::int64_t> number = whole_number(*value);
  if (!number || *number < low || *number > high) {
    fail(name, concat("must be a whole number from ", low, " to ", high));
    return std::nullopt;
  }
  return number;
}

std::optional<double> FieldReader::finite(std::string_view name) {
  is_typed_read = true;
  const json::value* value = raw(name);
  is_typed_read = false;
  if (value == nullptr || !ok()) return std::nullopt;
  double number = NAN;
  if (value->is_number()) number = value->to_number<double>();
  if (!std::isfinite(number)) {
    fail(name, "must be a finite number");
    return std::nullopt;
  }
  return number;
}

std::optional<double> FieldReader::number(std::string_view name, double low, double high) {
  if (FieldRecorder* recorder = FieldRecorder::current())
    recorder->note(path_of(name), {{"type", "number"}, {"minimum", low}, {"maximum", high}});
  const std::optional<double> number = finite(name);
  if (number && (*number < low || *number > high)) {
    fail(name, concat("must be a number from ", low, " to ", high));
    return std::nullopt;
  }
  return number;
}

std::optional<double> FieldReader::number_above(std::string_view name, double low, double high) {
  if (FieldRecorder* recorder = FieldRecorder::current())
    recorder->note(path_of(name), {{"type", "number"}, {"exclusiveMinimum", low}, {"maximum", high}});
  const std::optional<double> number = finite(name);
  // Callers store a float, so values that round to `low` as a float are refused, too.
  if (number && (*number > high || static_cast<double>(static_cast<float>(*number)) <= low)) {
    fail(name, concat("must be a number above ", low, " and at most ", high));
    return std::nullopt;
  }
  return number;
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
  const json::value* value = typed(*this, name, "boolean");
  if (value == nullptr || !ok()) return std::nullopt;
  if (!value->is_bool()) {
    fail(name, "must be true or false");
    return std::nullopt;
  }
  return value->as_bool();
}

std::optional<std::string> FieldReader::string(std::string_view name, std::size_t max_bytes) {
  const json::value* value = typed(*this, name, "string");
  if (value == nullptr || !ok()) return std::nullopt;
  if (!value->is_string()) {
    fail(name, "must be a string");
    return std::nullopt;
  }
  const json::string& text = value->as_string();
  if (text.size() > max_bytes) {
    fail(name, concat("must be at most ", max_bytes, " bytes long"));
    return std::nullopt;
  }
  return std::string(text.data(), text.size());
}

std::vector<std::string> FieldReader::strings(std::string_view name, std::size_t max_count,
                                              std::size_t max_bytes) {
  const json::value* value = typed_as(*this, name, [&] {
    const json::object text = {{"type", "string"}, {"minLength", 1}};
    const json::object list = {{"type", "array"}, {"items", text}, {"maxItems", max_count}};
    return json::object{{"anyOf", {text, list}}};
  });
  if (value == nullptr || !ok()) return {};
  std::vector<std::string> texts;
  const auto add = [&](const json::value& entry, const std::string& entry_name) {
    if (!entry.is_string()) return fail(entry_name, "must be a string");
    const json::string& text = entry.as_string();
    if (text.empty()) return fail(entry_name, "must not be an empty string");
    if (text.size() > max_bytes)
      return fail(entry_name, concat("must be at most ", max_bytes, " bytes long"));
    texts.emplace_back(text.data(), text.size());
  };
  if (const json::array* list = value->if_array()) {
    if (list->size() > max_count) fail(name, concat("must have at most ", max_count, " entries"));
    for (std::size_t i = 0; i < list->size() && ok(); ++i) add((*list)[i], concat(name, ".", i));
  } else if (value->is_string()) {
    add(*value, std::string(name));
  } else {
    fail(name, "must be a string or a list of strings");
  }
  return ok() ? texts : std::vector<std::string>{};
}

std::optional<std::vector<TokenId>> FieldReader::token_ids(std::string_view name, std::size_t max_count,
                                                           std::int32_t vocab_size) {
  if (FieldRecorder* recorder = FieldRecorder::current())
    recorder->note(path_of(name),
                   {{"type", "array"},
                    {"items", {{"type", "integer"}, {"minimum", 0}, {"maximum", vocab_size - 1}}},
                    {"maxItems", max_count}});
  const json::array* list = array(name, max_count);
  if (list == nullptr) return std::nullopt;
  Result<std::vector<TokenId>> ids = read_token_ids(*list, path_of(name), vocab_size);
  if (!ids) {
    fail(ids.error());
    return std::nullopt;
  }
  return std::move(*ids);
}

const json::object* FieldReader::object(std::string_view name) {
  const json::value* value = typed(*this, name, "object");
  if (value == nullptr || !ok()) return nullptr;
  if (!value->is_object()) {
    fail(name, "must be an object");
    return nullptr;
  }
  return &value->as_object();
}

const json::array* FieldReader::array(std::string_view name, std::size_t max_count) {
  const json::value* value = typed(*this, name, "array");
  if (value == nullptr || !ok()) return nullptr;
  if (!value->is_array()) {
    fail(name, "must be a list");
    return nullptr;
  }
  if (value->as_array().size() > max_count) {
    fail(name, concat("must have at most ", max_count, " entries"));
    return nullptr;
  }
  return &value->as_array();
}

}  // namespace pagoda
