#pragma once
// SimulatedPageMapper: simulates the time of model_runner/page_mapper.h: how long a step waits until its
// pages are mapped, and how long mapping ahead for later steps takes beside it. Maps nothing.
//
//     step          |--- wait ---|------- computes -------|--- wait for the rest, then map ---|- computes -
//     its thread                 |----------- maps ahead -------------|
//
// A call costs map_call_s plus map_page_s (or unmap_page_s) for each driver page of its blocks, and every
// tensor has its own calls. Ranks map in parallel. Free if the cost model has no map_page_bytes. Not
// modelled: the time that the system needs to find memory for a page used for the first time. Source:
// vAttention (arXiv 2405.04437) §6.2; PageMapper. Threads: none; owned by the simulation.
#include <span>

#include "base/clock.h"
#include "request/kv_groups.h"
#include "request/page_ops.h"
#include "request/step_result.h"
#include "sim/cost_model.h"

namespace pagoda {

// Returns one rank's bytes of a block in one of `num_tensors` tensors, rounded up to whole driver pages; 0 if
// mapping is free. `tokens`: per block. `pages_per_row`: total over all KV groups, which share the bytes of a
// row.
double mapped_block_bytes(const CostModel& model, std::int32_t tokens, std::int32_t pages_per_row,
                          std::int32_t num_tensors);

class SimulatedPageMapper {
 public:
  // Borrows model.
  SimulatedPageMapper(const CostModel& model, std::span<const KvGroup> groups, std::int32_t num_tensors);

  // Returns the seconds that a step starting at `now` waits before it can compute.
  double map(std::span<const PageMapping> mappings, TimeNs now);
  // Starts at `now`, in parallel with the step.
  void map_ahead(std::span<const PageMapping> mappings, TimeNs now);
  MapStats take_stats();  // since the last call

 private:
  double seconds(std::span<const PageMapping> mappings) const;

  const CostModel& model_;
  const std::int32_t num_tensors_;
  double driver_pages_ = 0;  // driver pages per block and tensor
  TimeNs ahead_until_ = 0;
  MapStats stats_;
};

}  // namespace pagoda
