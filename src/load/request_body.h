#pragma once
// Writes the JSON body of a workload's request. Prompts known only by length are synthetic: random token ids
// if the server accepts them, otherwise short words. Equal prefixes of a workload (shared_prefix_id,
// prefix_hash_ids) become equal tokens; all other tokens differ between requests, so that there are no
// accidental prefix-cache hits.
// Threads: none; concurrent reads are safe.
#include <cstdint>
#include <string>

#include "load/workload.h"

namespace pagoda {

struct BodyOptions {
  enum class Endpoint { completions, chat, responses, messages, ollama, llamacpp, embeddings };
  enum class MadeUp { token_ids, words };
  Endpoint endpoint = Endpoint::completions;
  MadeUp made_up = MadeUp::token_ids;
  std::int32_t token_low = 100, token_high = 29'999;  // range of ids to draw from, inclusive
  std::string model;
  bool ignore_eos = false;
  // Requests the token count in every chunk (supported by vLLM and Pagoda; OpenAI itself would refuse).
  bool continuous_usage = true;
  std::string extra_members;  // ',"temperature":0,"top_p":1': appended unchanged
  std::uint64_t seed = 0;
};

// True if the endpoint supports several choices per request.
inline bool has_choices(BodyOptions::Endpoint endpoint) {
  return endpoint == BodyOptions::Endpoint::completions || endpoint == BodyOptions::Endpoint::chat;
}

// `index`: the request's number in the run.
std::string write_body(const WorkloadRequest& request, std::uint64_t index, const BodyOptions& options);

}  // namespace pagoda
