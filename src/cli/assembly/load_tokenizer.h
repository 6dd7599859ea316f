#pragma once
// Finds and reads a tokenizer, whatever form it has on disk.
#include <memory>
#include <string>

#include "base/status.h"
#include "loader/gguf.h"
#include "loader/model_source.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// `path` is a folder (tokenizer.json, else tekken.json, tokenizer.model, a tiktoken file, vocab.json with
// merges.txt, one .gguf), or one of these files. tokenizer_config.json and the like beside it are read too.
// not_found, or the reader's error with the file's name before it.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path);

// The same for a model that is open already.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelSource& model);
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const GgufFile& file);

}  // namespace pagoda
