#pragma once
// SimulatedPageMapper: what model_runner/page_mapper.h does, in simulated time: how long a step waits until
// the pages that it needs are mapped, and what is mapped beside it for later ones. Maps nothing.
//
//     step          |--- wait ---|------- computes -------|--- wait for the rest, then map ---|- computes -
//     its thread                 |----------- maps ahead -------------|
//
// A call costs map_call_s and map_page_s for each of the driver's pages behind its blocks, or unmap_page_s;
// every tensor has calls of its own. Ranks map at the same time. A cost model without map_page_bytes: free.
// Not modelled: that the system has to find memory for a page which nobody has used yet.
// Source: vAttention (arXiv 2405.04437) §6.2; PageMapper. Threads: none; the simulation's.
#include <span>

#include "base/clock.h"
#include "request/kv_groups.h"
#include "request/page_ops.h"
#include "request/step_result.h"
#include "sim/cost_model.h"

namespace pagoda {

// One rank's bytes of a block in one of `num_tensors`, in whole pages of the driver; 0 where mapping is free.
// `tokens`: of a block. `pages_per_row`: of all KV groups together, among which a row's bytes are divided.
double mapped_block_bytes(const CostModel& model, std::int32_t tokens, std::int32_t pages_per_row,
                          std::int32_t num_tensors);

class SimulatedPageMapper {
 public:
  // Borrows model.
  SimulatedPageMapper(const CostModel& model, std::span<const KvGroup> groups, std::int32_t num_tensors);

  // Seconds that a step at `now` waits before it can compute.
  double map(std::span<const PageMapping> mappings, TimeNs now);
  // Begins at `now`, beside the step.
  void map_ahead(std::span<const PageMapping> mappings, TimeNs now);
  MapStats take_stats();  // since the last call

 private:
  double seconds(std::span<const PageMapping> mappings) const;

  const CostModel& model_;
  const std::int32_t num_tensors_;
  double driver_pages_ = 0;  // pages of a block, in one tensor
  TimeNs ahead_until_ = 0;
  MapStats stats_;
};

}  // namespace pagoda
