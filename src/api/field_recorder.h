#pragma once
// FieldRecorder: records the fields that FieldReaders read on this thread during its lifetime: each path
// ("messages.0.role") with its JSON Schema. /openapi.json is generated from what the parsers read from sample
// bodies, so the two cannot differ (server/body_schemas_test.cc). A running server has no recorder, which
// costs a null check per field. Threads: one; a second recorder on the same thread replaces the first until
// it is destroyed.
#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace pagoda {

class FieldRecorder {
 public:
  FieldRecorder() : outer_(current_) { current_ = this; }
  ~FieldRecorder() { current_ = outer_; }
  FieldRecorder(const FieldRecorder&) = delete;
  FieldRecorder& operator=(const FieldRecorder&) = delete;

  static FieldRecorder* current() { return current_; }

  // `schema`: empty if any value is allowed. A field that is read twice gets both schemas.
  void note(const std::string& path, boost::json::object schema);
  void note_required(const std::string& path) { required_.insert(path); }

  // The schema of the whole body; list indices ("0") become `items`.
  boost::json::object schema() const;
  const std::set<std::string>& required() const { return required_; }

 private:
  static thread_local FieldRecorder* current_;

  FieldRecorder* const outer_;
  std::map<std::string, std::vector<boost::json::object>> fields_;
  std::set<std::string> required_;
};

}  // namespace pagoda
