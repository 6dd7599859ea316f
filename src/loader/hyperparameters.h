#pragma once
// Hyperparameters: a typed view of config.json or GGUF metadata. Fields have Hugging Face's names;
// gguf_names.h maps them to GGUF's, and fields that exist only in GGUF keep its names. A family's file
// (models/families/) gives fields their meaning.
//
// The first error is kept as status() and later reads return defaults, so a reader checks once at the end.
// Null counts as absent. Absent fields have the values of use_defaults(), except for find(). refuse_unread()
// then reports the fields that were not read.
// Threads: none.
#include <boost/json.hpp>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/gguf.h"

namespace pagoda {

namespace json = boost::json;

// A value for messages; json::serialize would write 0.5 as 5E-1.
std::string show(const json::value& value);

// Returns GGUF's name for a field of config.json, without the architecture; the field itself if there is no
// other name.
std::string_view gguf_name(std::string_view field);

class Hyperparameters {
 public:
  // `object` must outlive the view and is config.json or an object in it. Error messages put `before` before
  // a field's name and a quotation mark after it.
  Hyperparameters(const json::object& object, Status& status, std::string_view before = "config.json: '");
  // Views the metadata of `file`, which must outlive the view, under its architecture's name.
  Hyperparameters(const GgufFile& file, Status& status);
  Hyperparameters(const Hyperparameters&) = delete;
  Hyperparameters& operator=(const Hyperparameters&) = delete;

  const GgufFile* gguf() const { return gguf_; }  // null: the file is config.json
  const json::object& object() const { return *object_; }

  // Sets values for absent fields of a config.json; `defaults` must outlive the view.
  void use_defaults(const json::object& defaults) { defaults_ = &defaults; }
  // Returns null if there is no default; the default itself may be JSON null.
  const json::value* default_of(std::string_view name) const;

  // Returns null if the field is absent or null. written() is true for a null field.
  const json::value* find(std::string_view name) const;
  bool written(std::string_view name) const;

  // `default_value` is used if neither the file nor the defaults have the field; without it, the file is then
  // corrupt.
  std::int32_t integer(std::string_view name, std::optional<std::int32_t> default_value = std::nullopt) const;
  float number(std::string_view name, std::optional<float> default_value = std::nullopt) const;
  // The same, but a field that is null in the file is `none`.
  std::int32_t nullable_integer(std::string_view name, std::int32_t none) const;
  float nullable_number(std::string_view name, float none) const;
  bool boolean(std::string_view name, bool default_value) const;
  std::string string(std::string_view name, std::string_view default_value) const;
  const json::object* object(std::string_view name) const;
  const json::array* list(std::string_view name) const;             // null if absent or not a list
  std::vector<std::int32_t> integers(std::string_view name) const;  // one or a list; each value once
  std::vector<float> numbers(std::string_view name) const;          // empty with an error if not such a list
  std::vector<bool> flags(std::string_view name, std::int32_t count) const;  // a list of `count` 0s and 1s
  std::vector<bool> booleans(std::string_view name) const;  // empty if not a list of booleans
  // Returns a number for each of `count` layers, from a list or a single value. Otherwise empty, with an
  // error.
  std::vector<std::int32_t> of_layers(std::string_view name, std::int32_t count,
                                      std::optional<std::int32_t> default_value = std::nullopt) const;

  // Marks fields without effect as read; `names` are separated by spaces.
  void without_effect(std::string_view names) const;
  // Refuses the field unless it is absent, null or `harmless`.
  void only(std::string_view name, const json::value& harmless) const;

  // Tensors of a GGUF file, whose presence replaces missing metadata; empty for config.json.
  std::set<std::string_view> tensor_names() const;  // valid while the file exists
  bool has_tensor(std::string_view name) const;

  // Call after the family's reader. Refuses, by name, unread fields that change results; skips fields known
  // to have no effect; returns the others. `where`: prefix of a nested object, such as "rope_scaling.".
  std::vector<std::string> refuse_unread(std::string_view where = "") const;

  void fail(std::string_view name, std::string_view expected) const;  // "must be ..."
  void fail(Status status) const;
  void corrupt(std::string message) const;
  void refuse(std::string message) const;
  const Status& status() const { return *status_; }
  Status& shared_status() const { return *status_; }

 private:
  std::string full_name(std::string_view name) const;        // for messages
  const json::value* value_of(std::string_view name) const;  // from the file, or the default
  bool is_null(std::string_view name) const { return written(name) && find(name) == nullptr; }

  const json::object* object_;
  const json::object* defaults_ = nullptr;
  json::object metadata_;  // by GGUF's names
  const GgufFile* gguf_ = nullptr;
  std::string prefix_;  // "llama."
  mutable std::set<std::string, std::less<>> read_names_;
  Status* status_;
  std::string_view before_;
};

// Returns the quotient, or 0, which is refused as a size.
inline std::int32_t divide(std::int32_t a, std::int32_t b) { return b > 0 ? a / b : 0; }

}  // namespace pagoda
