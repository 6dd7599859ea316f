#pragma once
// SharedPrefixes: prompt prefixes that the operator keeps in the KV cache (PagedAttention §4.4). A prefix is
// computed like a request that wants no token, and pinned before its sequence releases its blocks.
// back.
//
//     absent --add--> being computed --pin--> pinned --drop--> absent;   being computed --drop--> absent
//
// Invariants: names are unique; pinned blocks are at most half of the pool, and never take space that an
// accepted request may need. Errors: already_exists, not_found, invalid_argument naming the field,
// resource_exhausted. Threads: list() and hide() are safe from any thread; the rest is the engine thread's.
#include <mutex>
#include <string>
#include <vector>

#include "engine/request_ends.h"
#include "engine/request_intake.h"

namespace pagoda {

class SharedPrefixes {
 public:
  // Borrows all arguments.
  SharedPrefixes(const EngineParts& parts, RequestIntake& intake, RequestTable& requests, RequestEnds& ends,
                 SequenceIds& ids, const StepObservers& observers, const Status& runner_status);

  // `sink` gets one output, finished, with the error if the prefix could not be pinned.
  Status add(const std::string& name, std::vector<TokenId> tokens, std::shared_ptr<OutputSink> sink);
  // Called when the group has just computed the prefix.
  Status pin(const SequenceGroup& group, const std::string& name);
  // Requests that use a pinned prefix keep its blocks until they end.
  Status drop(const std::string& name);

  std::vector<PrefixInfo> list() const;  // pinned and not hidden
  bool hide(const std::string& name);    // removes it from list(), before it is dropped; false: not listed

  // For snapshots: the pinned prefixes, and the sequences that hold them in the KV manager. Engine thread
  // only.
  struct Prefix {
    PrefixInfo info;
    SequenceId holder{};
    bool hidden = false;
  };
  const std::vector<Prefix>& pinned() const { return prefixes_; }

 private:
  Status check_name(const std::string& name) const;
  RequestState* find_computing(const std::string& name) const;

  const EngineParts& parts_;
  RequestIntake& intake_;
  RequestTable& requests_;
  RequestEnds& ends_;
  SequenceIds& ids_;
  const StepObservers& observers_;
  const Status& runner_status_;
  mutable std::mutex mutex_;  // for list() and hide()
  std::vector<Prefix> prefixes_;
  std::uint64_t num_requests_ = 0;
};

}  // namespace pagoda
