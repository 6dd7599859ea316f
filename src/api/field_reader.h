#pragma once
// FieldReader: reads the fields of one JSON object, each with a type and a range. null counts as absent. The
// first error is kept and names the field by its dotted path ("messages.0.content"). After an error every
// read returns "absent", so callers read all fields and check status() once.
// Unread fields are ignored; unread() lists them.
// Threads: none.
#include <boost/json/object.hpp>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "request/ids.h"

namespace pagoda {

// invalid_argument: "'PARAM' PROBLEM."
Status bad_field(std::string_view param, std::string_view problem);

class FieldReader {
 public:
  explicit FieldReader(const boost::json::object& object, std::string path = {})
      : object_(object), path_(std::move(path)) {}

  // A whole number (16 and 16.0, not 16.5 or true) within [low, high].
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  // A finite number within [low, high]; within (low, high], also as a float, for number_above().
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<double> number_above(std::string_view name, double low, double high);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> string(std::string_view name, std::size_t max_bytes);
  // A string or a list of strings, none empty.
  std::vector<std::string> strings(std::string_view name, std::size_t max_count, std::size_t max_bytes);
  // A list of token ids in [0, vocab_size).
  std::optional<std::vector<TokenId>> token_ids(std::string_view name, std::size_t max_count,
                                                std::int32_t vocab_size);
  const boost::json::object* object(std::string_view name);
  const boost::json::array* array(std::string_view name, std::size_t max_count);
  // The raw value; null if absent or JSON null. `types`: the JSON Schema types that the caller accepts, for
  // /openapi.json; empty: any.
  const boost::json::value* raw(std::string_view name,
                                std::initializer_list<std::string_view> types = {}) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }  // any type

  // Refuses an unsupported field unless its value is null, false or an empty list.
  void not_built(std::string_view name, std::string_view why = "this server does not implement it");

  void fail(std::string_view name, std::string_view problem);  // invalid_argument; the first error is kept
  void fail(Status status);
  std::string path_of(std::string_view name) const;
  const boost::json::object& whole() const { return object_; }
  // Fields of the object that were not read and are not null.
  std::vector<std::string_view> unread() const;
  bool ok() const { return status_.ok(); }
  const Status& status() const { return status_; }

 private:
  std::optional<double> finite(std::string_view name);
  const boost::json::value* find(std::string_view name) const;

  const boost::json::object& object_;
  std::string path_;
  Status status_;
  mutable std::vector<std::string> read_names_;  // names of fields that were read
};

// The whole number in `value`, in any JSON spelling; nullopt if it is not a whole number.
std::optional<std::int64_t> whole_number(const boost::json::value& value);
// Reads a JSON array of token ids; invalid_argument names the bad entry under `path`.
Result<std::vector<TokenId>> read_token_ids(const boost::json::array& array, const std::string& path,
                                            std::int32_t vocab_size);

}  // namespace pagoda
