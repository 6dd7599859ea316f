#pragma once
// Overrides of a GGUF file's metadata. Of loader/ alone.
// Source: llama.cpp's --override-kv; vLLM's --hf-overrides.
#include <string_view>

#include "base/status.h"
#include "loader/gguf.h"

namespace pagoda {

// "KEY=TYPE:VALUE", several between commas; TYPE is int, float, bool or str. invalid_argument names what is
// wrong.
Status override_metadata(GgufFile& file, std::string_view text);

// A JSON object of fields of config.json, as far as metadata say the same. invalid_argument names one that
// has no counterpart.
Status override_as_config(GgufFile& file, std::string_view overrides);

// The same of fields of its rope_scaling.
Status override_rope(GgufFile& file, std::string_view rope);

}  // namespace pagoda
