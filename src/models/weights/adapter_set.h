#pragma once
// AdapterSet: the low-rank adapters that requests may choose, in the form that the model's products read, by
// name and by id. Each adapter is checked against the model's matrices when it is added. Requests and batches
// name adapters by request/request_adapter.h; adapters merged at start are adapted_weights.h's.
// Invariants: an id is never reused in a process; an adapter's factors, and their bytes in the account of
// set_memory(), stay as long as anything holds the adapter, removed or not.
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
  std::int32_t max_rank = 64;     // maximum rank of a matrix
};

class AdapterSet {
 public:
  using Handle = std::shared_ptr<const RequestAdapter>;

  explicit AdapterSet(AdapterLimits limits) : limits_(limits) {}

  const AdapterLimits& limits() const { return limits_; }

  // Sets the model's matrices. Called by the loader of the model before any add(). Reloading the model must
  // set the same.
  void set_targets(AdapterTargets targets);

  // Sets the account that all adapters' memory is charged to, including adapters already loaded. Both must
  // outlive every holder of an adapter. Called once; before that nothing is charged.
  void set_memory(MemoryBudget& memory, MemoryBudget::AccountId account);
  std::int64_t loaded_bytes() const;  // total over loaded adapters
  // Upper bound on the memory of copies of `count` adapters with their tables: the largest loaded ones or, if
  // others may come, any that add() accepts.
  std::int64_t most_bytes(std::int32_t count, bool others_may_come) const;

  // May take seconds. already_exists: the name is taken and may not be replaced. unimplemented, by name:
  // changes that only an adapter merged at start may make. invalid_argument: made for another model, or the
  // rank exceeds the limit. resource_exhausted: too many adapters are loaded, or memory is short. On failure
  // the set is unchanged. `identity`: as in RequestAdapter; empty: derived from its files.
  enum class IfLoaded { refuse, replace };
  Result<Handle> add(std::string name, const Adapter& adapter, IfLoaded if_loaded = IfLoaded::refuse,
                     std::string identity = {});
  // Returns false if no adapter has this name. Requests that hold the adapter continue.
  bool remove(std::string_view name);

  Handle find(std::string_view name) const;  // null if no adapter has this name
  std::vector<Handle> list() const;          // in the order of add()
  // Returns null if nothing holds the adapter any more, or the id was never given.
  std::shared_ptr<const AdapterFactors> find(AdapterId id) const;

 private:
  struct Loaded;
  Status check_room(std::string_view name, IfLoaded if_loaded) const;  // with the mutex held
  Result<MemoryReservation> reserve(std::int64_t bytes) const;         // with the mutex held

  const AdapterLimits limits_;
  mutable std::mutex mutex_;                       // guards the members below
  std::shared_ptr<const AdapterTargets> targets_;  // null: not set yet
  MemoryBudget* memory_ = nullptr;                 // null: nothing is charged
  MemoryBudget::AccountId account_{};
  std::vector<std::shared_ptr<Loaded>> loaded_;
  std::map<AdapterId, std::weak_ptr<const Loaded>> by_id_;
};

}  // namespace pagoda
