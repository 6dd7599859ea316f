#pragma once
// GGUF's names for the fields of config.json: the one table of them.
#include <span>
#include <string_view>

namespace pagoda {

struct GgufName {
  std::string_view field, key;  // config.json's, and GGUF's behind the architecture's name
  bool fraction = false;        // else an integer
};
std::span<const GgufName> gguf_names();

}  // namespace pagoda
