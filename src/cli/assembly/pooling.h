#pragma once
// For models that produce vectors: determines the runner's and the protocols' settings from flags and the
// model's files.
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

// nullopt: the model generates text. `tokenizer` may be null; then the tokens of answers are omitted.
Result<std::optional<PoolingModel>> pooling_model(const EngineFlags& flags, const ModelSource& source,
                                                  const ModelInfo& model, const Tokenizer* tokenizer);

// `size`: number of elements of a vector.
VectorModel vector_model(const PoolingModel& pooling, const ModelInfo& model, std::int32_t size);

// Rejects flags, by name, that such a model does not support, or that one without K/V (`keeps_nothing`) does
// not.
Status check_pooling_flags(const EngineFlags& flags, bool keeps_nothing);

}  // namespace pagoda
