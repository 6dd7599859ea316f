#pragma once
// A download that went wrong leaves other bytes in a model's place: none, the pointer of Git LFS, a web page.
#include <cstddef>
#include <span>
#include <string_view>

namespace pagoda {

// A sentence on it, with what to do; empty: the bytes are none of these.
std::string_view no_model_because(std::span<const std::byte> bytes);

}  // namespace pagoda
