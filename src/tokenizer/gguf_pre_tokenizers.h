#pragma once
// The pre-tokenizers of byte-level BPE by the names of tokenizer.ggml.pre: llama.cpp's convention. Where the
// model's own tokenizer.json is known, its components are used, so that ids equal Hugging Face's.
// Threads: any.
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/pre_tokenizer.h"

namespace pagoda {

struct GgufPreTokenizer {
  PreTokenizerPtr pre_tokenizer;
  bool bytes_to_model = true;  // false: the chain maps bytes to characters itself
  bool nfc = false;            // the text is normalized first
  bool ignore_merges = false;
  bool add_bos = false;  // default if the file does not say
};

// The first of the names of each, which all others mean, too.
std::vector<std::string_view> gguf_pre_tokenizer_names();

// An empty name is "default". unimplemented, naming those that are known.
Result<GgufPreTokenizer> make_gguf_pre_tokenizer(std::string_view name);

}  // namespace pagoda
