#pragma once
// Writes the JSON body of one request of a workload. Prompts known only by length are made up: random token
// ids where the server takes them, else short words. Equal prefixes of a workload (shared_prefix_id,
// prefix_hash_ids) become equal tokens; everything else differs between requests, so that nothing is found in
// a prefix cache by accident.
// Threads: none; reading is safe from several.
#include <cstdint>
#include <string>

#include "load/workload.h"

namespace pagoda {

struct BodyOptions {
  enum class Endpoint { completions, chat, responses, messages, ollama, llamacpp, embeddings };
  enum class MadeUp { token_ids, words };
  Endpoint endpoint = Endpoint::completions;
  MadeUp made_up = MadeUp::token_ids;
  std::int32_t token_low = 100, token_high = 29'999;  // ids to draw from, both included
  std::string model;
  bool ignore_eos = false;
  // Asks for the count of tokens in every chunk (vLLM and Pagoda have it; OpenAI itself would refuse).
  bool continuous_usage = true;
  std::string extra_members;  // ',"temperature":0,"top_p":1': appended as it stands
  std::uint64_t seed = 0;
};

// Whether a request of this many choices can be asked of it.
inline bool has_choices(BodyOptions::Endpoint endpoint) {
  return endpoint == BodyOptions::Endpoint::completions || endpoint == BodyOptions::Endpoint::chat;
}

// `index` is the request's number in the run.
std::string write_body(const WorkloadRequest& request, std::uint64_t index, const BodyOptions& options);

}  // namespace pagoda
