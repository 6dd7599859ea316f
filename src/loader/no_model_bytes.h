#pragma once
// Failed downloads leave other bytes in place of a model: nothing, a Git LFS pointer, a web page.
#include <cstddef>
#include <span>
#include <string_view>

namespace pagoda {

// Returns a sentence about the cause and the remedy; empty if the bytes are none of these.
std::string_view no_model_because(std::span<const std::byte> bytes);

}  // namespace pagoda
