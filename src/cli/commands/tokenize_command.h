#pragma once
// pagoda tokenize: text to token ids and back, a JSON line each, for comparing tokenizers.
#include <string>
#include <vector>

#include "cli/flags/flag.h"

namespace pagoda {

struct TokenizeArgs {
  std::string tokenizer;            // an argument of load_tokenizer
  std::string text = {};            // without `input`: see typed_words.h; with decode ids between spaces
  std::string input;                // {"text": ...} a line; with decode {"ids": [...]}; "-": stdin
  bool decode = false;              // special tokens are written out
  bool add_special_tokens = false;  // BOS and EOS as the tokenizer wants them
};

std::vector<Flag> tokenize_flags(TokenizeArgs& args);
// Results on stdout, one line for each line that is not blank; a bad one gives {"error": ...} in its place.
// 0, or 2 after one line on stderr when tokenizer or input cannot be read.
int run_tokenize(const TokenizeArgs& args);

}  // namespace pagoda
