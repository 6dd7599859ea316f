#pragma once
// For tests: a workload from a list, a small cost model with round numbers, and checked options.
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "base/strings.h"
#include "load/list_workload.h"
#include "sim/simulation.h"

namespace pagoda::sim_test {

inline WorkloadRequest request_at(double arrival_s, std::int32_t prompt, std::int32_t output) {
  WorkloadRequest out;
  out.arrival_s = arrival_s;
  out.prompt_tokens = prompt;
  out.output_tokens = output;
  return out;
}

// A step takes 10 ms, plus 1 ms for each token from the 11th on. Other costs are negligible.
inline CostModel plain_cost_model() {
  CostModel out;
  out.name = "plain";
  out.num_layers = 2;
  out.hidden_size = 64;
  out.vocab_size = 1000;
  out.max_model_len = 1024;
  out.parameters = 1e6;
  out.bytes_per_parameter = 2;
  out.attention_width = 64;
  out.kv_bytes_per_token = 1024;
  out.kv_cache_bytes = 1024.0 * 16 * 256;
  out.memory_bytes_per_s = 2e8;  // reads the weights in 10 ms
  out.flops_per_s = 2e9;         // 1 ms per token
  out.attention_bytes_per_s = out.attention_flops_per_s = 1e18;
  out.link_bytes_per_s = 1e9;
  out.swap_bytes_per_s = 1e9;
  return out;
}

// Builds a batch of sequences with given numbers of computed and new tokens.
struct Batch {
  std::vector<TokenId> tokens = std::vector<TokenId>(4096, 1);
  ScheduledBatch batch;
  void add(std::int32_t computed, std::size_t count) {
    ScheduledSequence sequence;
    sequence.num_computed_tokens = computed;
    sequence.tokens = std::span(tokens).first(count);
    sequence.sample = true;
    batch.sequences.push_back(sequence);
    batch.num_tokens += static_cast<std::int32_t>(count);
  }
};

// Unwraps valid options and enables the invariant checks after every step.
inline SimulationOptions checked(Result<SimulationOptions> options) {
  EXPECT_TRUE(options) << (options ? "" : options.error().message());
  options->check_invariants = true;
  return *std::move(options);
}

}  // namespace pagoda::sim_test
