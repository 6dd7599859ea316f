#pragma once
// CostModel: the time of a step from its batch, a roofline over the parts of a decoder's step:
//   * linear layers, output head: the larger of reading the weights and 2 flops a parameter and token, or a
//     measured curve; attention: the larger of reading K/V and 4 flops a token, attended token and element of
//     the queries;
//   * all-reduces: two a layer, latency and a ring's bytes; swapping: blocks over the bus, and their start;
//   * overhead of a step, request, sequence and token; padding (FasterTransformer's) in linear layers and
//     head.
// Every rate is one rank's. Source: Williams et al., "Roofline" (CACM'09); PagedAttention (SOSP'23) §4.5,
// §4.6, §7.3. Threads: none; immutable in use.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "scheduler/scheduled_batch.h"

namespace pagoda {

struct CostModel {
  std::string name;

  // The model.
  std::int32_t num_layers = 0;
  std::int32_t hidden_size = 0;
  std::int32_t vocab_size = 0;
  std::int32_t max_model_len = 0;
  double parameters = 0;                    // that each token is multiplied with, without embedding and head
  double head_parameters = 0;               // the output head, for sampled rows only
  double bytes_per_parameter = 2;           // as stored
  double attention_width = 0;               // query heads * head size
  double kv_bytes_per_token = 0;            // over all layers and ranks
  double kv_cache_bytes = 0;                // memory left for the KV cache by default
  std::int32_t max_num_batched_tokens = 0;  // limit of the engine that was measured; 0: none was

  // The machine; what it reaches, not what its sheet promises. Rates are of one rank.
  std::int32_t tensor_parallel_size = 1;
  double memory_bytes_per_s = 0;
  double flops_per_s = 0;
  double attention_bytes_per_s = 0;  // reading K/V
  double attention_flops_per_s = 0;
  double link_bytes_per_s = 0;  // between ranks, one direction
  double link_latency_s = 0;    // one all-reduce
  double swap_bytes_per_s = 0;
  double swap_block_s = 0;  // starting the transfers of one block
  // Mapping K/V pages into address space: of a call, and of each of the driver's pages behind it.
  double map_page_bytes = 0;  // the driver's pages; 0: mapping is free
  double map_call_s = 0, map_page_s = 0, unmap_page_s = 0;
  double step_overhead_s = 0;
  double request_overhead_s = 0;  // cost of a request, beside that of each of its sequences
  double sequence_overhead_s = 0;
  double token_overhead_s = 0;

  // Measured seconds of the linear layers for so many tokens; ascending, linear in between and beyond.
  // Empty: the roofline.
  struct Point {
    double tokens = 0, seconds = 0;
  };
  std::vector<Point> linear_points;

  // The share of attention_bytes_per_s that a kernel reaches which reads K/V through a block table: by block
  // size, ascending; a size in between has that of the next smaller entry. Empty: all of it.
  struct Efficiency {
    std::int32_t block_size = 1;
    double share = 1;  // above 0, at most 1
  };
  std::vector<Efficiency> paged_read_efficiency;

  // Whether the rows that pad a batch (FasterTransformer's) are computed like others: what that program does,
  // and ours does not.
  bool computes_padding = false;

  // A client's wait outside the engine: HTTP, tokenizing, threads that wait for a core. Takes no step's time.
  double outside_s = 0;

  // How measured steps scatter about these costs: quantiles of measured by predicted, the i-th of n at
  // (i + 1/2) / n, of steps that only decode and of those with prompts. Empty: not at all.
  std::vector<double> decode_scatter, prompt_scatter;
  // How far the steps it was fitted to are from it, relative, median; 0: it was not fitted.
  double fit_error = 0;
  // How much it was fitted to: single steps (0: none, medians, or not known), and the sequences of the
  // largest steps (0: not known).
  double fitted_steps = 0, fitted_sequences = 0;
  // As normal scores a step's quantile is the sum of two: one that stays for a while, whose next value has
  // this correlation with the last, below 1, and what is each step's own. scatter_share: of the first in the
  // variance; 0 is 1.
  double scatter_correlation = 0, scatter_share = 0;
};

struct StepCost {
  double seconds = 0;       // the whole step, swapping included
  double swap_seconds = 0;  // part spent on swaps
};

// `groups`: of the layers that see everything and of those with windows; the model's bytes and layers are
// divided as their pages are. `paged`: K/V are read through a block table, not from contiguous memory.
StepCost step_cost(const CostModel& model, const ScheduledBatch& batch, std::span<const KvGroup> groups,
                   bool paged = true);
// For models whose layers all see everything.
inline StepCost step_cost(const CostModel& model, const ScheduledBatch& batch, std::int32_t block_size,
                          bool paged = true) {
  return step_cost(model, batch, one_full_group(block_size), paged);
}

// invalid_argument, naming the field: what no machine or model can be.
Status validate(const CostModel& model);

// "GPU/MODEL/tpN", or "paper/MODEL" of paper_cost_models.cc. not_found: lists what there is.
Result<CostModel> named_cost_model(std::string_view name);
// Absent: no name of one of the paper's servers.
std::optional<CostModel> paper_cost_model(std::string_view name);
std::vector<std::string> paper_cost_models();
std::vector<std::string> cost_model_gpus();
std::vector<std::string> cost_model_models();

// The JSON form: one object with the fields above. Errors name the field.
Result<CostModel> parse_cost_model(std::string_view json);
std::string cost_model_json(const CostModel& model);

// A warning for whoever relies on the model: it is a bound only, or fits badly. Empty: none.
std::string cost_model_warning(const CostModel& model);

// A named one, or else a file of that name.
Result<CostModel> load_cost_model(const std::string& name_or_path);

}  // namespace pagoda
