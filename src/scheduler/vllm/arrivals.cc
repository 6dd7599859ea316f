#include "scheduler/vllm/arrivals.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace pagoda {

bool Arrivals::begin(SequenceGroup& group) {
  if (group.asked_tiers || !group.takes_cached_prefix()) return false;
  if (records_.queues.num_reserved() + group.num_reserved() > records_.config.max_num_seqs) return false;
  const auto leader = std::ranges::find_if(group.sequences, [](const auto& s) { return !s->finished(); });
  CHECK(leader != group.sequences.end());
  const std::int64_t margin = records_.queues.running().empty() ? 0 : records_.watermark_blocks;
  const std::string salt = group.prefix_salt();
  CacheUse use(salt, group.cache_claim());
  use.adapter = group.request.adapter;
  const KvTiering::Arrival answer =
      records_.kv.tiering().begin_arrival((*leader)->id, (*leader)->tokens, use, margin);
  if (answer == KvTiering::Arrival::no_room) return false;
  group.asked_tiers = true;
  if (answer == KvTiering::Arrival::nothing) return false;
  (*leader)->state = SequenceState::arriving;
  records_.queues.remove(group);
  records_.queues.insert_arriving(group);
  return true;
}

void Arrivals::settle() {
  std::vector<SequenceGroup*> arrived;
  for (SequenceGroup* const group : records_.queues.arriving()) {
    for (const auto& sequence : group->sequences) {
      if (sequence->state != SequenceState::arriving || records_.kv.tiering().arriving(sequence->id))
        continue;
      sequence->state = SequenceState::parked;
      group->asked_tiers = !records_.kv.tiering().answered(sequence->id);
      arrived.push_back(group);
    }
  }
  for (SequenceGroup* const group : arrived) {
    records_.queues.remove(*group);
    records_.queues.insert_waiting(*group);
  }
}

}  // namespace pagoda
