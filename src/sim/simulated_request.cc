#include "sim/simulated_request.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/random.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kHashedTokens = 512;  // tokens per entry of prefix_hash_ids (Mooncake)

// Random streams of the synthetic tokens; a separate one for each source, so that their tokens differ.
enum class Source : std::uint64_t { own = 0, hashed = 1, prefix = 2 };

std::uint64_t stream_of(Source source, std::uint64_t id) {
  return mix64(id ^ (static_cast<std::uint64_t>(source) << 62));
}

}  // namespace

Request make_simulated_request(const WorkloadRequest& from, std::uint64_t number, std::uint64_t seed,
                               std::int32_t vocab_size) {
  Request out;
  out.id = RequestId{number};
  const auto length = static_cast<std::size_t>(std::max(1, from.prompt_tokens));
  out.prompt_token_ids.resize(length);
  const std::uint64_t own = stream_of(Source::own, number);
  const std::uint64_t prefix = stream_of(Source::prefix, from.shared_prefix_id);
  const auto shared = static_cast<std::size_t>(std::max(0, from.shared_prefix_tokens));
  for (std::size_t i = 0; i < length; ++i) {
    std::uint64_t stream = own;
    if (i < shared)
      stream = prefix;
    else if (i / kHashedTokens < from.prefix_hash_ids.size())
      stream = stream_of(Source::hashed, from.prefix_hash_ids[i / kHashedTokens]);
    out.prompt_token_ids[i] =
        static_cast<TokenId>(random_bits(seed, stream, i) % static_cast<std::uint64_t>(vocab_size));
  }
  out.tenant = from.tenant;
  out.weight = from.weight;
  out.priority = from.priority;
  if (from.adapter > 0) {
    RequestAdapter adapter;
    adapter.id = AdapterId{from.adapter};
    adapter.name = adapter.identity = concat("adapter ", from.adapter);
    out.adapter = std::make_shared<const RequestAdapter>(std::move(adapter));
  }
  SamplingParams& sampling = out.sampling;
  sampling.max_tokens = std::max(1, from.output_tokens);
  sampling.ignore_eos = true;
  sampling.seed = random_bits(seed, own, ~std::uint64_t{0});
  if (from.beam_width > 0) {
    sampling.use_beam_search = true;
    sampling.beam_width = from.beam_width;
    sampling.n = std::max(1, std::min(from.n, from.beam_width));
    sampling.temperature = 0;
  } else {
    sampling.n = std::max(1, from.n);
    sampling.best_of = std::max(sampling.n, from.best_of);
  }
  return out;
}

}  // namespace pagoda
