#pragma once
// SharedIndices: an immutable list of tokens that the masks of many grammars share. Not a container to
// change: it is made from a vector and read. XGrammar keeps the tokens of a mask that only the rules around
// it can decide in a vector of each grammar's own, most of a grammar's bytes; cmake/xgrammar.cmake puts this
// in its place, so that a copy of a mask does not copy them. Units: bytes. Threads: any. Source: none.
#include <xgrammar/exception.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace picojson {
class value;
}

namespace pagoda {

class SharedIndices {
 public:
  using List = std::vector<std::int32_t>;

  SharedIndices() = default;
  SharedIndices(const List& list) : list_(list.empty() ? nullptr : std::make_shared<const Kept>(list)) {}

  operator const List&() const { return list_ == nullptr ? empty_list() : list_->list; }
  List::const_iterator begin() const { return list().begin(); }
  List::const_iterator end() const { return list().end(); }
  std::size_t size() const { return list().size(); }

  // Of all lists that somebody holds.
  static std::int64_t live_bytes() { return live(); }

 private:
  struct Kept {
    explicit Kept(const List& from) : list(from) { live() += bytes(); }
    ~Kept() { live() -= bytes(); }
    Kept(const Kept&) = delete;
    std::int64_t bytes() const { return static_cast<std::int64_t>(list.capacity() * sizeof(std::int32_t)); }
    const List list;
  };
  const List& list() const { return *this; }
  static const List& empty_list() {
    static const List empty;
    return empty;
  }
  static std::atomic<std::int64_t>& live() {
    static std::atomic<std::int64_t> bytes{0};
    return bytes;
  }

  std::shared_ptr<const Kept> list_;  // null: empty
};

// XGrammar can write a grammar as JSON; nobody here asks it to.
picojson::value SerializeJSONValue(const SharedIndices& indices);
std::optional<xgrammar::SerializationError> DeserializeJSONValue(SharedIndices* indices,
                                                                 const picojson::value& value,
                                                                 const std::string& type_name);

}  // namespace pagoda
