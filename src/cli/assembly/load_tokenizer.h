#pragma once
// Finds and reads a tokenizer in any of the supported file formats.
#include <memory>
#include <string>

#include "base/status.h"
#include "loader/gguf.h"
#include "loader/model_source.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

// `path` is a folder (tokenizer.json, else tekken.json, tokenizer.model, a tiktoken file, vocab.json with
// merges.txt, one .gguf), or one of these files. Also reads tokenizer_config.json and similar files beside
// it. Errors: not_found, or the reader's error prefixed with the file's name.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const std::string& path);

// The same for a model that is already open.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelSource& model);
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const GgufFile& file);

}  // namespace pagoda
