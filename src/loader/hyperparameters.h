#pragma once
// Hyperparameters: one typed view over what a file says of its model, config.json or GGUF metadata. Fields
// have Hugging Face's names; what GGUF calls them stands in one table (hyperparameters.cc), and fields that
// GGUF alone has go by its own names. Not what a field means to a family: that is the family's file
// (models/families/).
//
// The first wrong type is kept as status(), and reads after it give defaults, so that a reader checks once at
// the end. Null counts as absent. refuse_unread() then says what became of the fields that nobody asked for.
// Fields that a file leaves out have the values of use_defaults(), for all reads of one value but find().
// More than 25 public methods: one a type and shape of value. Threads: none.
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

// A value for a message; json::serialize would write 0.5 as 5E-1.
std::string show(const json::value& value);

// GGUF's name for a field of config.json, behind the architecture's; the field's own where they are the same.
std::string_view gguf_name(std::string_view field);

class Hyperparameters {
 public:
  // `object`, which must outlive the view, is config.json or an object inside; in errors `before` stands
  // before the name of a field, and a quotation mark behind it.
  Hyperparameters(const json::object& object, Status& status, std::string_view before = "config.json: '");
  // Views the metadata of `file`, which must outlive the view, under the name of its architecture.
  Hyperparameters(const GgufFile& file, Status& status);
  Hyperparameters(const Hyperparameters&) = delete;
  Hyperparameters& operator=(const Hyperparameters&) = delete;

  const GgufFile* gguf() const { return gguf_; }  // null: the file is config.json
  const json::object& object() const { return *object_; }

  // A config.json with the values of fields that the file leaves out; it must outlive the view.
  void use_defaults(const json::object& defaults) { defaults_ = &defaults; }
  const json::value* default_of(
      std::string_view name) const;  // which may be null itself; null: there is none

  // Null: absent, or null in the file. `written` is true of null, too.
  const json::value* find(std::string_view name) const;
  bool written(std::string_view name) const;

  // `otherwise` is for fields that neither the file nor the defaults have; a file that must have such a one
  // is corrupt without.
  std::int32_t integer(std::string_view name, std::optional<std::int32_t> otherwise = std::nullopt) const;
  float number(std::string_view name, std::optional<float> otherwise = std::nullopt) const;
  // The same of a field that may be null in a file, and then is `none`.
  std::int32_t nullable_integer(std::string_view name, std::int32_t none) const;
  float nullable_number(std::string_view name, float none) const;
  bool boolean(std::string_view name, bool otherwise) const;
  std::string string(std::string_view name, std::string_view otherwise) const;
  const json::object* object(std::string_view name) const;
  const json::array* list(std::string_view name) const;  // null: the field is absent, or something else
  std::vector<std::int32_t> integers(std::string_view name) const;  // one or a list, each once
  std::vector<float> numbers(std::string_view name) const;  // empty and failed where it is no list of them
  std::vector<bool> flags(std::string_view name, std::int32_t count) const;  // a list of `count`, each 0 or 1
  std::vector<bool> booleans(std::string_view name) const;  // a list of them; empty where it is none
  // A number for each of `count` layers: a list, or one for all. Empty and failed where it is neither.
  std::vector<std::int32_t> of_layers(std::string_view name, std::int32_t count,
                                      std::optional<std::int32_t> otherwise = std::nullopt) const;

  // Fields that change nothing, whatever they say; `names` are separated by spaces.
  void without_effect(std::string_view names) const;
  // Refuses the field unless it is absent, null or `harmless`.
  void only(std::string_view name, const json::value& harmless) const;

  // Tensors of a GGUF file, which say what its metadata leave out; none of config.json.
  std::set<std::string_view> tensor_names() const;  // valid as long as the file
  bool has_tensor(std::string_view name) const;

  // Call it behind the family's reader. Of the fields that nobody asked for, those that change the result are
  // refused by name, many are known to change nothing, and the others come back. `where`: of an object
  // inside, "rope_scaling.".
  std::vector<std::string> refuse_unread(std::string_view where = "") const;

  void fail(std::string_view name, std::string_view expected) const;  // "must be ..."
  void fail(Status status) const;
  void corrupt(std::string message) const;
  void refuse(std::string message) const;
  const Status& status() const { return *status_; }
  Status& shared_status() const { return *status_; }

 private:
  std::string full_name(std::string_view name) const;        // for messages
  const json::value* value_of(std::string_view name) const;  // the file's, or the default
  bool is_null(std::string_view name) const { return written(name) && find(name) == nullptr; }

  const json::object* object_;
  const json::object* defaults_ = nullptr;
  json::object metadata_;  // GGUF's metadata, by GGUF's names
  const GgufFile* gguf_ = nullptr;
  std::string prefix_;  // "llama."
  mutable std::set<std::string, std::less<>> asked_;
  Status* status_;
  std::string_view before_;
};

// Quotient or 0, which is refused as a size.
inline std::int32_t divide(std::int32_t a, std::int32_t b) { return b > 0 ? a / b : 0; }

}  // namespace pagoda
