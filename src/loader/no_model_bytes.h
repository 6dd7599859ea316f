#pragma once
// What a download that went wrong left in a model's place: an empty file, the pointer of Git LFS, a web page.
#include <cstddef>
#include <span>
#include <string_view>

namespace pagoda {

// A sentence on it, with what to do; empty: the bytes are none of these.
std::string_view no_model_because(std::span<const std::byte> bytes);

}  // namespace pagoda
