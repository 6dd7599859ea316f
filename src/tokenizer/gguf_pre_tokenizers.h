#pragma once
// The pre-tokenizers of byte-level BPE, selected by llama.cpp's names in tokenizer.ggml.pre. If the model's
// own tokenizer.json is known, its components are used, so that ids equal Hugging Face's.
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/pre_tokenizer.h"

namespace pagoda {

struct GgufPreTokenizer {
  PreTokenizerPtr pre_tokenizer;
  bool bytes_to_model = true;  // false: the chain itself maps bytes to characters
  bool nfc = false;            // normalize the text to NFC first
  bool ignore_merges = false;
  bool add_bos = false;  // default if the file does not say
};

// The primary name of each pre-tokenizer; others may be aliases.
std::vector<std::string_view> gguf_pre_tokenizer_names();

// An empty name means "default". unimplemented for an unknown name; the message lists the known ones.
Result<GgufPreTokenizer> make_gguf_pre_tokenizer(std::string_view name);

}  // namespace pagoda
