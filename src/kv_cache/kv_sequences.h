#pragma once
// KvSequences: the sequences of a manager, by id.
// Threads: none; owned by the engine thread.
#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/check.h"
#include "kv_cache/kv_sequence.h"
#include "request/ids.h"

namespace pagoda {

class KvSequences {
 public:
  explicit KvSequences(std::size_t num_groups) : num_groups_(num_groups) {}

  // CHECK that the sequence exists. Its address is stable until it is erased.
  KvSequence& at(SequenceId id);
  const KvSequence& at(SequenceId id) const;
  KvSequence& insert(SequenceId id);  // CHECKs that it does not exist
  void erase(SequenceId id) { sequences_.erase(id); }

  std::vector<const BlockTable*> tables_of(std::span<const SequenceId> ids) const;
  BlockTables::EachTable each_table() const;  // tables that are not swapped
  const std::unordered_map<SequenceId, KvSequence>& all() const { return sequences_; }

 private:
  const std::size_t num_groups_;
  std::unordered_map<SequenceId, KvSequence> sequences_;
};

inline KvSequence& KvSequences::at(SequenceId id) {
  const auto it = sequences_.find(id);
  CHECK(it != sequences_.end());
  return it->second;
}

inline const KvSequence& KvSequences::at(SequenceId id) const {
  const auto it = sequences_.find(id);
  CHECK(it != sequences_.end());
  return it->second;
}

inline KvSequence& KvSequences::insert(SequenceId id) {
  const auto [it, fresh] = sequences_.try_emplace(id);
  CHECK(fresh);
  it->second.table.groups.resize(num_groups_);
  return it->second;
}

inline std::vector<const BlockTable*> KvSequences::tables_of(std::span<const SequenceId> ids) const {
  std::vector<const BlockTable*> out;
  for (const SequenceId id : ids) out.push_back(&at(id).table);
  return out;
}

inline BlockTables::EachTable KvSequences::each_table() const {
  return [this](const auto& f) {
    for (const auto& [id, sequence] : sequences_)
      if (!sequence.table.swapped) f(sequence.table);
  };
}

}  // namespace pagoda
