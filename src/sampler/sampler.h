#pragma once
// Sampler: rows of logits -> candidates with log-probabilities. Log-probabilities are of the raw logits,
// before any parameter is applied (vLLM's raw_logprobs), or, if the request asks for processed ones, of the
// distribution that is drawn from; in a masked row, over the allowed tokens. decoding/ decides what becomes
// of a candidate. Invariant: a row's candidates depend only on its logits, parameters and (seed, stream,
// position). Threads: one caller; rows are spread over the context's pool, one row per tile.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/backend.h"
#include "request/sampling_params.h"
#include "request/step_result.h"
#include "request/token_constraint.h"
#include "sampler/distribution.h"
#include "sampler/logits_processor.h"

namespace pagoda {

struct SampleRow {
  std::span<const float> logits = {};
  const SamplingParams* params = nullptr;
  std::uint64_t seed = 0;
  std::uint32_t first_stream = 0;  // candidate i draws from stream first_stream + i
  std::uint32_t num_candidates = 1;
  bool beam = false;                     // candidates are the most likely tokens by raw log-probability
  std::int32_t position = 0;             // in the random stream: output tokens before this one
  std::span<const TokenId> prompt = {};  // prompt and output: for penalties and bad_words
  std::span<const TokenId> output = {};
  std::span<const MaskWord> mask = {};  // empty: every token may be drawn
  SequenceResult* result = nullptr;     // candidates and top are filled in
};

// One row of prompt logits: the log-probability of the token that follows.
struct PromptRow {
  std::span<const float> logits = {};
  TokenId token = 0;
  std::int32_t num_top = 0;  // -1: the whole vocabulary
  TokenLogprobs* result = nullptr;
};

class Sampler {
 public:
  explicit Sampler(const KernelContext& context);

  // Parameters never override a row's mask: if they leave none of its tokens, the most likely allowed token
  // is taken. A mask that allows nothing yields a meaningless token; for beams, no candidate.
  void sample(std::span<const SampleRow> rows);

  // takes_largest(): true if the row needs only its most likely token and nothing else of its logits. take():
  // fills in the candidates of such a row. A masked row needs all logits.
  static bool takes_largest(const SampleRow& row);
  static void take(const SampleRow& row, TokenId token);

  // Fills in the candidates of a row whose mask allows only one of `vocab_size` tokens and which needs
  // nothing else of its logits. Returns false if the logits are needed.
  static bool settle(const SampleRow& row, std::int32_t vocab_size);

  void score_prompt(std::span<const PromptRow> rows);

 private:
  // A row with its mask applied: -infinity for tokens that are not allowed. Kept between rows, since most of
  // it stays the same.
  struct Masked {
    std::span<const float> apply(CpuLevel level, const SampleRow& row);
    std::vector<float> logits;
    std::vector<std::uint8_t> open;  // for each block of kMaximaBlock logits: 1 if any token is allowed
  };
  struct Scratch {  // one per worker
    LogitsProcessor processor;
    Distribution distribution;
    std::vector<float> logits;
    Masked masked;
  };
  void sample_row(const SampleRow& row, Scratch& scratch) const;

  KernelContext context_;
  KernelContext row_context_;  // like context_, but on the calling thread only, for use inside a tile
  std::vector<Scratch> scratch_;
};

}  // namespace pagoda
