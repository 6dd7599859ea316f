#pragma once
// A workload: requests with arrival times, before they are anybody's API request. A stream, not a list, so
// that a simulation of any length holds only what is live. `bench serve` and `simulate` read the same ones.
// Source: PagedAttention (SOSP'23) §6.1 (lengths of Fig. 11, Poisson arrivals).
// Threads: none; one reader.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace pagoda {

struct WorkloadRequest {
  double arrival_s = 0;  // since the workload's start; never falls from one request to the next
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;
  std::string prompt;  // empty: only its length is known
  // Ids of each 512 prompt tokens (Mooncake): equal ids, equal tokens and equal history. Empty: nothing is
  // shared.
  std::vector<std::uint64_t> prefix_hash_ids;
  // The first shared_prefix_tokens of the prompt are the same for all requests of this prefix.
  std::int32_t shared_prefix_tokens = 0;
  std::uint64_t shared_prefix_id = 0;
  // Decoding: at most one of n > 1 and beam_width > 0.
  std::int32_t n = 1, best_of = 1, beam_width = 0;
  // The sender.
  std::string tenant;
  std::int32_t weight = 1, priority = 0;
  std::int32_t adapter = 0;  // number of its low-rank adapter; 0: none
  double timeout_s = 0;      // it waits no longer for the answer; 0: as long as it takes
};

class Workload {
 public:
  virtual ~Workload() = default;
  // Absent: the end. Errors name the file's line and field.
  virtual Result<std::optional<WorkloadRequest>> next() = 0;
  // How many there are, where that is known before the end: for the progress bar.
  virtual std::optional<std::int64_t> size() const { return std::nullopt; }
};

}  // namespace pagoda
