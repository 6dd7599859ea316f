#pragma once
// The routes of models that make vectors: OpenAI's embeddings; vLLM's pooling, classify, score and rerank.
#include "api/protocol.h"

namespace pagoda {

const Protocol& pooling_protocol();

}  // namespace pagoda
