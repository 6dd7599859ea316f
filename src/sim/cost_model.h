#pragma once
// CostModel: predicts the time of a step from its batch, as a roofline over the parts of a decoder step:
//   * linear layers and output head: the larger of reading the weights and 2 flops per parameter and token
//     (or a measured curve); attention: the larger of reading K/V and 4 flops per token, attended token and
//     query element
//   * all-reduces: two per layer, latency plus the bytes of a ring; swapping: bytes over the bus plus a start
//     cost for each block
//   * overhead per step, request, sequence and token; padding (FasterTransformer's) in linear layers and head
// Rates are those of a single rank. Source: Williams et al., "Roofline" (CACM'09); PagedAttention (SOSP'23)
// §4.5, §4.6, §7.3. Threads: none; immutable in use.
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

  // The language model.
  std::int32_t num_layers = 0;
  std::int32_t hidden_size = 0;
  std::int32_t vocab_size = 0;
  std::int32_t max_model_len = 0;
  double parameters = 0;                    // used for each token, without embedding and output head
  double head_parameters = 0;               // in the output head, used for sampled rows only
  double bytes_per_parameter = 2;           // as stored
  double attention_width = 0;               // query heads * head size
  double kv_bytes_per_token = 0;            // over all layers and ranks
  double kv_cache_bytes = 0;                // memory available to the KV cache by default
  std::int32_t max_num_batched_tokens = 0;  // limit of the measured engine; 0: none

  // The machine, with achieved rather than advertised rates. Rates are those of one rank.
  std::int32_t tensor_parallel_size = 1;
  double memory_bytes_per_s = 0;
  double flops_per_s = 0;
  double attention_bytes_per_s = 0;  // reading K/V
  double attention_flops_per_s = 0;
  double link_bytes_per_s = 0;  // between ranks, in one direction
  double link_latency_s = 0;    // per all-reduce
  double swap_bytes_per_s = 0;
  double swap_block_s = 0;  // time to start the transfers of one block
  // Mapping K/V pages into address space: the cost per call, and per driver page in the call.
  double map_page_bytes = 0;  // size of a driver page; 0: mapping is free
  double map_call_s = 0, map_page_s = 0, unmap_page_s = 0;
  double step_overhead_s = 0;
  double request_overhead_s = 0;  // per request, in addition to the cost of its sequences
  double sequence_overhead_s = 0;
  double token_overhead_s = 0;

  // Measured seconds of the linear layers by number of tokens; ascending, with linear interpolation and
  // extrapolation. Empty: use the roofline.
  struct Point {
    double tokens = 0, seconds = 0;
  };
  std::vector<Point> linear_points;

  // The share of attention_bytes_per_s that a kernel achieves when it reads K/V through a block table, by
  // block size, ascending. A size between two entries uses the smaller entry. Empty: the full rate.
  struct Efficiency {
    std::int32_t block_size = 1;
    double share = 1;  // above 0, at most 1
  };
  std::vector<Efficiency> paged_read_efficiency;

  // True if padding rows of a batch (FasterTransformer's) are computed like other rows. FasterTransformer
  // computes them; this engine does not.
  bool computes_padding = false;

  // Time that a client waits outside the engine: HTTP, tokenization, threads waiting for a core. Not part of
  // a step.
  double outside_s = 0;

  // How measured steps scatter around the predicted cost: quantiles of measured / predicted, the i-th of n at
  // (i + 1/2) / n, for decode-only steps and for steps with prompts. Empty: no scatter.
  std::vector<double> decode_scatter, prompt_scatter;
  // Median relative error over the steps that the model was fitted to; 0: not fitted.
  double fit_error = 0;
  // The extent of the measurement: the number of single steps (0: none, medians, or unknown), and the number
  // of sequences in the largest steps (0: unknown).
  double fitted_steps = 0, fitted_sequences = 0;
  // The normal score of a step's quantile is the sum of a persistent component and an independent one per
  // step. scatter_correlation, below 1: correlation of the persistent component between consecutive steps.
  // scatter_share: its share of the variance; 0 stands for 1.
  double scatter_correlation = 0, scatter_share = 0;
};

struct StepCost {
  double seconds = 0;       // the whole step, including swapping
  double swap_seconds = 0;  // the part spent on swaps
};

// `groups`: the KV groups of full and windowed layers; the model's bytes and layers are divided between them
// in proportion to their pages. `paged`: K/V is read through a block table instead of contiguous memory.
StepCost step_cost(const CostModel& model, const ScheduledBatch& batch, std::span<const KvGroup> groups,
                   bool paged = true);
// For models with full attention in all layers.
inline StepCost step_cost(const CostModel& model, const ScheduledBatch& batch, std::int32_t block_size,
                          bool paged = true) {
  return step_cost(model, batch, one_full_group(block_size), paged);
}

// invalid_argument, naming the field, if a value is impossible for a machine or model.
Status validate(const CostModel& model);

// Accepts "GPU/MODEL/tpN", or "paper/MODEL" from paper_cost_models.cc. not_found: the message lists the known
// names.
Result<CostModel> named_cost_model(std::string_view name);
// nullopt if the name is not one of the paper's servers.
std::optional<CostModel> paper_cost_model(std::string_view name);
std::vector<std::string> paper_cost_models();
std::vector<std::string> cost_model_gpus();
std::vector<std::string> cost_model_models();

// The JSON form: one object with the fields above. Error messages name the field.
Result<CostModel> parse_cost_model(std::string_view json);
std::string cost_model_json(const CostModel& model);

// A warning for users of the model's predictions: it is only a bound, or fits badly. Empty if there is none.
std::string cost_model_warning(const CostModel& model);

// Loads the named model or, if there is none, the file of that name.
Result<CostModel> load_cost_model(const std::string& name_or_path);

}  // namespace pagoda
