#pragma once
// SamplingParams: how the next tokens of a request are chosen. Names, meanings, defaults and order of
// application follow vLLM. Text-level stop strings are not included: the detokenizing layer matches them and
// aborts the request. Ranges are checked where the request is parsed (api/).
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "request/ids.h"

namespace pagoda {

// When a beam search that has found `width` complete answers may end before max_tokens.
enum class EarlyStopping : std::uint8_t {
  never,      // when no live beam can still beat them; gives the answer of a full search
  heuristic,  // "false" in the API: when no live beam is better than they are now
  first,      // "true" in the API: immediately
};

struct SamplingParams {
  std::int32_t n = 1;        // sequences returned
  std::int32_t best_of = 1;  // sequences run, >= n; the n best by cumulative log-probability
  float temperature = 1.0f;  // 0 is greedy
  std::int32_t top_k = 0;    // 0 or -1: off
  float top_p = 1.0f;
  float min_p = 0.0f;
  float typical_p = 1.0f;           // as in transformers and llama.cpp; applied after the three above
  float repetition_penalty = 1.0f;  // over prompt and output
  float presence_penalty = 0.0f;    // over output only
  float frequency_penalty = 0.0f;   // over output only
  std::vector<std::pair<TokenId, float>> logit_bias;
  std::vector<TokenId> allowed_token_ids;       // empty: all
  std::vector<std::vector<TokenId>> bad_words;  // token sequences that must not be completed
  std::optional<std::uint64_t> seed;            // absent: the engine draws one

  std::int32_t max_tokens = 16;  // new tokens per sequence
  std::int32_t min_tokens = 0;   // stop tokens are masked until this many tokens exist
  bool ignore_eos = false;
  std::vector<TokenId> stop_token_ids;  // besides the model's end-of-sequence ids
  std::vector<TokenId> eos_token_ids;   // the model's, its tokenizer's EOS first; filled in by api/

  std::optional<std::int32_t> logprobs;         // top-k alternatives per output token; 0: only the chosen
  std::optional<std::int32_t> prompt_logprobs;  // the same for prompt tokens
  bool processed_logprobs = false;  // logprobs of the distribution that is sampled, after all of the above

  bool use_beam_search = false;
  std::int32_t beam_width = 0;  // 0: best_of, which is at least n
  float length_penalty = 1.0f;  // score = cumulative log-probability / length^length_penalty
  EarlyStopping early_stopping = EarlyStopping::never;
  std::int32_t num_beam_groups = 1;  // above 1: diverse beam search; must divide the width
  float diversity_penalty = 0.0f;    // per earlier group that chose the same token in the step
  bool best_so_far = false;          // report the best sequence after every step (SequenceDelta::kBestSoFar)

  // Number of beams or samples.
  std::int32_t width() const { return beam_width > 0 ? beam_width : std::max(n, best_of); }
};

}  // namespace pagoda
