#pragma once
// RequestOutput: one engine step's contribution to one request. The engine sends it to the request's sink;
// the last one has finished == true. Sequences that finish in different steps are reported as they finish.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "request/ids.h"
#include "request/request_times.h"

namespace pagoda {

enum class FinishReason : std::uint8_t { stop, length, abort, error };

inline std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::abort:
      return "abort";
    case FinishReason::error:
      return "error";
  }
  return "error";
}

struct TokenLogprob {
  TokenId token;
  float logprob;      // natural log, from the raw logits unless the request asks for processed ones
  std::int32_t rank;  // 1 = most likely; ties share the better rank
};

// The chosen (or prompt) token first, then the requested number of most likely tokens, best first.
struct TokenLogprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;
};

struct SequenceDelta {
  // Not a choice: the complete answer that a beam search would give now, for clients that watch its progress.
  static constexpr std::int32_t kBestSoFar = -1;

  std::int32_t index = 0;               // choice index, 0 .. n-1, or kBestSoFar
  std::vector<TokenId> token_ids;       // new tokens; a stop token is included as the last one
  std::vector<TokenLogprobs> logprobs;  // one per new token if logprobs were requested
  double cumulative_logprob = 0;        // over all output tokens so far
  std::optional<FinishReason> finish_reason;
  std::vector<float> vector;  // the whole answer if the request pools (work.h); then there are no tokens
  std::optional<TokenId> stop_token;  // ended the sequence; absent for the first of eos_token_ids
};

struct RequestOutput {
  RequestId id{};
  std::vector<SequenceDelta> deltas;
  // In the first output if prompt_logprobs were requested: one entry per prompt token, the first absent.
  std::vector<std::optional<TokenLogprobs>> prompt_logprobs;
  std::int32_t num_cached_tokens = 0;  // prompt tokens taken from the prefix cache
  RequestTimes times;                  // up to this output
  bool finished = false;
  Status error;  // not ok: the request failed; finished is true
};

}  // namespace pagoda
