#pragma once
// A workload: requests with arrival times, independent of any API. It is a stream, so that a long simulation
// holds only live requests. `bench serve` and `simulate` read the same workloads.
// Source: PagedAttention (SOSP'23) §6.1 (lengths of Fig. 11, Poisson arrivals).
// Threads: none; one reader.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace pagoda {

struct WorkloadRequest {
  double arrival_s = 0;  // since the start of the workload; never decreases
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;
  std::string prompt;  // empty: only the length is known
  // Ids of each 512 prompt tokens (Mooncake). Equal ids mean equal tokens and equal history. Empty: nothing
  // is shared.
  std::vector<std::uint64_t> prefix_hash_ids;
  // The first shared_prefix_tokens of the prompt are equal in all requests with this prefix id.
  std::int32_t shared_prefix_tokens = 0;
  std::uint64_t shared_prefix_id = 0;
  // Decoding: at most one of n > 1 and beam_width > 0.
  std::int32_t n = 1, best_of = 1, beam_width = 0;
  // The sending tenant.
  std::string tenant;
  std::int32_t weight = 1, priority = 0;
  std::int32_t adapter = 0;  // number of the low-rank adapter; 0: none
  double timeout_s = 0;      // the client gives up after this time; 0: never
};

class Workload {
 public:
  virtual ~Workload() = default;
  // nullopt at the end. Errors name the file's line and field.
  virtual Result<std::optional<WorkloadRequest>> next() = 0;
  // The number of requests if it is known in advance; for the progress bar.
  virtual std::optional<std::int64_t> size() const { return std::nullopt; }
};

}  // namespace pagoda
