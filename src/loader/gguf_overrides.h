#pragma once
// Overrides of a GGUF file's metadata. Private to loader/.
// Source: llama.cpp's --override-kv; vLLM's --hf-overrides.
#include <string_view>

#include "base/status.h"
#include "loader/gguf.h"

namespace pagoda {

// "KEY=TYPE:VALUE", comma-separated; TYPE is int, float, bool or str. invalid_argument names the fault.
Status override_metadata(GgufFile& file, std::string_view text);

// A JSON object of config.json fields that have counterparts in metadata. invalid_argument names a field
// without one.
Status override_as_config(GgufFile& file, std::string_view overrides);

// The same for fields of config.json's rope_scaling.
Status override_rope(GgufFile& file, std::string_view rope);

}  // namespace pagoda
