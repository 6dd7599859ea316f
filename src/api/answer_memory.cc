#include "api/answer_memory.h"

#include <optional>

#include "request/request_output.h"

namespace pagoda {
namespace {

constexpr std::int64_t kRequestBytes = 2048;  // per choice or prompt, regardless of its length
constexpr std::int64_t kTokenBytes = 16;      // a token's id and text, each in a list with spare capacity
constexpr std::int64_t kHeapBytes = 16;       // overhead of a list besides its entries

std::int64_t logprobs_bytes(std::int32_t alternatives) {
  return static_cast<std::int64_t>(sizeof(std::optional<TokenLogprobs>)) + kHeapBytes +
         alternatives * static_cast<std::int64_t>(sizeof(TokenLogprob));
}

}  // namespace

std::int64_t answer_bytes(std::span<const Request> requests) {
  std::int64_t bytes = 0;
  for (const Request& request : requests) {
    const SamplingParams& sampling = request.sampling;
    std::int64_t of_token = kTokenBytes, of_prompt_token = kTokenBytes;
    if (sampling.logprobs) of_token += logprobs_bytes(*sampling.logprobs);
    if (sampling.prompt_logprobs) of_prompt_token += logprobs_bytes(*sampling.prompt_logprobs);
    bytes += static_cast<std::int64_t>(request.prompt_token_ids.size()) * of_prompt_token + kRequestBytes;
    if (request.work.pools())
      bytes += std::int64_t{request.work.pooling.dimensions} * static_cast<std::int64_t>(sizeof(float));
    bytes += sampling.width() * (sampling.max_tokens * of_token + kRequestBytes);
  }
  return bytes;
}

}  // namespace pagoda
