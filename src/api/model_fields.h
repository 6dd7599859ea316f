#pragma once
// The fields of a body that choose what answers it: "model", and llama.cpp's "lora", which names an adapter
// by its id of /lora-adapters. Threads: any.
#include "api/api_context.h"
#include "api/field_reader.h"
#include "base/status.h"

namespace pagoda {

// "model", as choose_model(); absent: the model as it is.
Result<AdapterCatalog::Handle> read_model(FieldReader& fields, const ApiContext& context);

// "lora": [{"id", "scale"}]. A scale of 1 chooses the adapter, 0 does not; others, and several adapters, are
// refused, as is another one than `adapter`, which "model" has chosen.
void read_lora(FieldReader& fields, const ApiContext& context, AdapterCatalog::Handle& adapter);

// The id of an adapter in llama.cpp's protocol, which counts from 0.
inline std::int64_t llama_id(const RequestAdapter& adapter) {
  return static_cast<std::int64_t>(adapter.id) - 1;
}

}  // namespace pagoda
