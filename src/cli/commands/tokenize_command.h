#pragma once
// pagoda tokenize: converts text to token ids and back, one JSON line each, to compare tokenizers.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct TokenizeArgs {
  std::string tokenizer;  // an argument for load_tokenizer
  std::string text = {};  // without `input`: see typed_words.h; with `decode`, ids separated by spaces
  std::string input;      // JSON Lines of {"text": ...}, or of {"ids": [...]} with `decode`; "-": stdin
  bool decode = false;    // convert ids to text; special tokens are written out
  bool add_special_tokens = false;  // BOS and EOS as configured in the tokenizer
};

std::vector<Flag> tokenize_flags(TokenizeArgs& args);
// Prints one result per nonblank input line; an invalid line gives {"error": ...}. Returns 0, or 2 after one
// line on stderr if the tokenizer or the input cannot be read.
int run_tokenize(const TokenizeArgs& args);

}  // namespace pagoda
