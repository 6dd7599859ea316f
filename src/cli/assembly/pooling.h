#pragma once
// From flags and a model's files to a model that makes vectors: what the runner needs of it, and what the
// protocols tell of it.
#include <cstdint>
#include <optional>

#include "api/api_context.h"
#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "loader/model_source.h"
#include "model_runner/pooling_model.h"
#include "models/model_info.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// Absent: it generates text. `tokenizer` may be null: then answers' tokens are left out.
Result<std::optional<PoolingModel>> pooling_model(const EngineFlags& flags, const ModelSource& source,
                                                  const ModelInfo& model, const Tokenizer* tokenizer);

// `size`: elements of a vector.
VectorModel vector_model(const PoolingModel& pooling, const ModelInfo& model, std::int32_t size);

// Flags that ask for what a model that makes vectors has not, by name; of one that keeps no K/V, too.
Status check_pooling_flags(const EngineFlags& flags, bool keeps_nothing);

}  // namespace pagoda
