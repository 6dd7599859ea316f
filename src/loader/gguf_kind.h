#pragma once
// Whether a GGUF file is a model, or what belongs to one.
#include "base/status.h"
#include "loader/gguf.h"

namespace pagoda {

// unimplemented: it is an adapter, or the vision or audio part of a model.
Status check_is_model(const GgufFile& file);

}  // namespace pagoda
