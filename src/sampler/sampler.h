#pragma once
// Sampler: rows of logits -> candidates with log-probabilities. Log-probabilities are of the raw logits,
// before any parameter touches them (vLLM's raw_logprobs), or, where the request asks for processed ones, of
// what its draws are made from; of a masked row, over the tokens that its mask allows. Not the strategy: what
// a candidate becomes is decoding/'s. Invariant: a row's candidates depend on its logits, parameters and
// (seed, stream, position) alone. Threads: one caller; rows are spread over the context's pool, one row a
// tile.
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
  std::span<const TokenId> prompt = {};  // both for penalties and bad_words
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

  // The parameters never lead out of a row's mask: if they leave no token that it allows, the likeliest
  // allowed one is taken. A mask that allows nothing gives a token that means nothing; of beams, no
  // candidate.
  void sample(std::span<const SampleRow> rows);

  // Whether a row's candidates are its most likely token and nothing else of its logits is asked for; and
  // those candidates. Of a masked row, all logits are asked for.
  static bool takes_largest(const SampleRow& row);
  static void take(const SampleRow& row, TokenId token);

  // A row whose mask leaves one token of `vocab_size`, and of which nothing more is asked: its candidates,
  // whatever its logits are. False: they are needed.
  static bool settle(const SampleRow& row, std::int32_t vocab_size);

  void score_prompt(std::span<const PromptRow> rows);

 private:
  // A row under its mask: -infinity where nothing may be drawn. Kept between rows, since most of it stays.
  struct Masked {
    std::span<const float> apply(CpuLevel level, const SampleRow& row);
    std::vector<float> logits;
    std::vector<std::uint8_t> open;  // for each kMaximaBlock logits: 1 where some may be drawn
  };
  struct Scratch {  // one per worker
    LogitsProcessor processor;
    Distribution distribution;
    std::vector<float> logits;
    Masked masked;
  };
  void sample_row(const SampleRow& row, Scratch& scratch) const;

  KernelContext context_;
  KernelContext row_context_;  // the same on the calling thread alone, for use inside a tile
  std::vector<Scratch> scratch_;
};

}  // namespace pagoda
