#pragma once
// The fields of a body that choose the model: "model", and llama.cpp's "lora", which names an adapter by its
// id in /lora-adapters. Threads: any.
#include "api/api_context.h"
#include "api/field_reader.h"
#include "base/status.h"

namespace pagoda {

// Reads "model" as choose_model() does; if absent, the base model.
Result<AdapterCatalog::Handle> read_model(FieldReader& fields, const ApiContext& context);

// "lora": [{"id", "scale"}]. A scale of 1 chooses the adapter, 0 does not. Refused: other scales, several
// adapters, and an adapter that differs from `adapter`, which "model" has chosen.
void read_lora(FieldReader& fields, const ApiContext& context, AdapterCatalog::Handle& adapter);

// The adapter's id in llama.cpp's protocol, which counts from 0.
inline std::int64_t llama_id(const RequestAdapter& adapter) {
  return static_cast<std::int64_t>(adapter.id) - 1;
}

}  // namespace pagoda
