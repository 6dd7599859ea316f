#pragma once
// KnownRegexes: what was computed from the expressions that a thread has seen lately. Schemas of strings
// bring the same few over and over, and an automaton of one costs a good part of compiling. Not for what is
// kept with a grammar. When it is full it begins anew. Threads: one each. Source: none.
#include <cstddef>
#include <map>
#include <utility>

#include "inside.h"
#include "work.h"

namespace pagoda {

template <class Key, class Value>
class KnownRegexes {
 public:
  static constexpr std::size_t kMost = 32, kMostLength = 1000;  // expressions; bytes of one
  static constexpr int kMostStates = 500;                       // an automaton that is kept

  // Null: not known.
  const Value* find(const Key& key) const {
    const auto found = known_.find(key);
    if (found == known_.end()) return nullptr;
    spend(found->second.work);
    return &found->second.value;
  }
  // Not where there was a warning, or nobody would have heard of one: it has to come again.
  // `work`: units of work.h that it took to compute.
  void keep(Key key, Value value, std::int64_t work) {
    if (key.size() > kMostLength || xgrammar_warning == nullptr || !xgrammar_warning->empty()) return;
    if (known_.size() >= kMost) known_.clear();
    known_.insert_or_assign(std::move(key), Known{std::move(value), work});
  }

 private:
  struct Known {
    Value value;
    std::int64_t work;
  };
  std::map<Key, Known> known_;
};

}  // namespace pagoda
