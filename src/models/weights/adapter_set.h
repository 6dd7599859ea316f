#pragma once
// AdapterSet: the low-rank adapters that requests may choose, as the model's products read them, by name and
// by id. Each is checked against the model's matrices when it is added. Not what requests and batches say of
// adapters (request/request_adapter.h), and not adapters that are merged at start (adapted_weights.h).
// Invariants: an id is given once in a process; the factors of an adapter stay as long as anyone holds it,
// removed or not, and their bytes are used in the account of set_memory() for as long.
// Source: arXiv 2106.09685, 2310.18547. Threads: any.
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory_budget.h"
#include "base/status.h"
#include "kernels/low_rank.h"
#include "loader/adapter.h"
#include "models/weights/adapter_targets.h"
#include "request/request_adapter.h"

namespace pagoda {

struct AdapterLimits {
  std::int32_t max_adapters = 8;  // loaded at the same time
  std::int32_t max_rank = 64;     // a matrix may have it
};

class AdapterSet {
 public:
  using Handle = std::shared_ptr<const RequestAdapter>;

  explicit AdapterSet(AdapterLimits limits) : limits_(limits) {}

  const AdapterLimits& limits() const { return limits_; }

  // The matrices of the model, which whoever loads it says before anything is added. When it is loaded once
  // more they are the same.
  void set_targets(AdapterTargets targets);

  // The account that the bytes of all adapters are taken of, those that are loaded included. Both outlive
  // whoever holds an adapter. Once; before it nothing is counted.
  void set_memory(MemoryBudget& memory, MemoryBudget::AccountId account);
  std::int64_t loaded_bytes() const;  // the sum over those that are loaded
  // Copies of `count` of them, with their tables, take no more: those of the largest that are loaded or,
  // where others may come, of any that add() takes.
  std::int64_t most_bytes(std::int32_t count, bool others_may_come) const;

  // May take seconds. already_exists: one of this name is there, and is not to be replaced. unimplemented,
  // by name: what only an adapter that is merged at start may change. invalid_argument: it is of another
  // model, or of a higher rank than the limit. resource_exhausted: as many are loaded as may be, or there is
  // no memory for it. An adapter that cannot be added leaves the set as it was. `identity` as in
  // RequestAdapter; empty: of its files.
  enum class IfLoaded { refuse, replace };
  Result<Handle> add(std::string name, const Adapter& adapter, IfLoaded if_loaded = IfLoaded::refuse,
                     std::string identity = {});
  // False: none has this name. Requests that hold it go on.
  bool remove(std::string_view name);

  Handle find(std::string_view name) const;  // null: none has this name
  std::vector<Handle> list() const;          // in the order in which they were added
  // Null: nobody holds it any more, or there never was one.
  std::shared_ptr<const AdapterFactors> find(AdapterId id) const;

 private:
  struct Loaded;
  Status check_room(std::string_view name, IfLoaded if_loaded) const;  // with the mutex held
  Result<MemoryReservation> reserve(std::int64_t bytes) const;         // with the mutex held

  const AdapterLimits limits_;
  mutable std::mutex mutex_;                       // guards the rest
  std::shared_ptr<const AdapterTargets> targets_;  // null: not known yet
  MemoryBudget* memory_ = nullptr;                 // null: nothing is counted
  MemoryBudget::AccountId account_{};
  std::vector<std::shared_ptr<Loaded>> loaded_;
  std::map<AdapterId, std::weak_ptr<const Loaded>> by_id_;
};

}  // namespace pagoda
