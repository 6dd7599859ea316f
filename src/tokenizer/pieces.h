#pragma once
// SentencePiece's conventions, shared by GGUF files.
#include <string_view>

namespace pagoda {

inline constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // stands for a space: U+2581
// A piece's type, numbered as in a model's file and in GGUF's tokenizer.ggml.token_type.
enum PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

}  // namespace pagoda
