#pragma once
// KnownRegexes: a cache of values computed from the expressions that a thread has seen recently. Schemas with
// strings repeat the same few expressions, and building their automata is a good part of compiling. Not for
// data that is kept with a grammar. A full cache is cleared. Threads: one instance per thread. Source: none.
#include <cstddef>
#include <map>
#include <utility>

#include "inside.h"
#include "work.h"

namespace pagoda {

template <class Key, class Value>
class KnownRegexes {
 public:
  static constexpr std::size_t kMost = 32, kMostLength = 1000;  // expressions; bytes per expression
  static constexpr int kMostStates = 500;                       // states of an automaton that is kept

  // Returns null if the key is not known.
  const Value* find(const Key& key) const {
    const auto found = known_.find(key);
    if (found == known_.end()) return nullptr;
    spend(found->second.work);
    return &found->second.value;
  }
  // Ignored if computing the value gave a warning, or if warnings are dropped: a warning must be repeated the
  // next time. `work`: the units of work.h that the computation took.
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
