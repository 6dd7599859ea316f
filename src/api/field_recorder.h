#pragma once
// FieldRecorder: what FieldReaders ask for while it stands, on this thread: each field by its path
// ("messages.0.role"), with what it may hold as JSON Schema. /openapi.json is made of what the parsers read
// of sample bodies, so that the two cannot differ (server/body_schemas_test.cc). A server that runs has none,
// which costs a null check a field. Threads: one; a second one on the same thread takes the place of the
// first until it goes.
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

  // `schema`: empty where any value may stand. A field that is read twice has both.
  void note(const std::string& path, boost::json::object schema);
  void note_required(const std::string& path) { required_.insert(path); }

  // The schema of the whole body, with lists' places ("0") as their items.
  boost::json::object schema() const;
  const std::set<std::string>& required() const { return required_; }

 private:
  static thread_local FieldRecorder* current_;

  FieldRecorder* const outer_;
  std::map<std::string, std::vector<boost::json::object>> fields_;
  std::set<std::string> required_;
};

}  // namespace pagoda
