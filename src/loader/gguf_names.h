#pragma once
// What GGUF metadata call the fields of config.json: the one table of them.
#include <span>
#include <string_view>

namespace pagoda {

struct GgufName {
  std::string_view field, key;  // of config.json, and of GGUF metadata behind the architecture's name
  bool fraction = false;        // else an integer
};
std::span<const GgufName> gguf_names();

}  // namespace pagoda
