#pragma once
// Bodies of calls for vectors (embeddings, pooling, classify, score, rerank) -> engine requests, and the
// options of the answer. Errors: invalid_argument and not_found, naming the field. Threads: any. Source of
// the fields: OpenAI's embeddings; vLLM's pooling routes; Cohere's and Jina's rerank; llama.cpp's embedding;
// embed and rerank of text-embeddings-inference (TEI); Cohere's embed (v2).
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/api_context.h"
#include "api/protocol.h"
#include "api/warnings.h"
#include "base/status.h"
#include "request/request.h"

namespace pagoda {

// embedding_list: llama.cpp's embeddings, a list without an enclosing object; rerank_list: likewise, TEI's
// rerank; vector_list: TEI's embed, a list of bare vectors; by_type: Cohere's embed.
enum class PoolingForm {
  embeddings,
  embedding_list,
  vector_list,
  by_type,
  pooling,
  classify,
  score,
  rerank,
  rerank_list
};

struct PoolingCall {
  PoolingForm form = PoolingForm::embeddings;
  std::string id;
  std::int64_t created = 0;
  bool base64 = false;
  // Score and rerank with an embedding model: the vectors of the first `num_compared` requests are compared
  // with those of the others. 0: each request is a pair.
  std::size_t num_compared = 0;
  std::vector<std::string> documents;  // rerank
  std::size_t top_n = 0;               // documents to return; 0: all
  bool return_documents = true;
  std::vector<Request> requests;
  Warnings warnings;
};

Result<PoolingCall> parse_pooling_call(PoolingForm form, const ApiCall& call, const ApiContext& context);

}  // namespace pagoda
