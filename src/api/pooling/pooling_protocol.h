#pragma once
// The routes of models that produce vectors: OpenAI's embeddings; vLLM's pooling, classify, score and rerank.
#include "api/protocol.h"

namespace pagoda {

const Protocol& pooling_protocol();

}  // namespace pagoda
