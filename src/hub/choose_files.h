#pragma once
// choose_files(): which of a repository's files make one model. Looks at names only.
// With a tag: the GGUF files that bear it, all parts of a split one. Without: the safetensors with what
// stands beside them (configuration, tokenizer, template, modules of sentence-transformers), never pickles;
// else the only GGUF model, else Q4_K_M. Errors: not_found lists what is there. invalid_argument: a name that
// leaves the folder, a part that is missing. Threads: any.
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

// Whether `name` can be a file below a folder: no "..", no empty part, nothing but printable text.
bool safe_file_name(std::string_view name);

// Whether a GGUF file's name has `tag` as a word: capitals do not count, and Q4_K is not in "Q4_K_M".
bool has_tag(std::string_view file, std::string_view tag);

// The word of a GGUF file's name that says how its weights are stored: "Q4_K_M", "IQ3_XS", "BF16"; else the
// name, of a split model without the number of its part.
std::string tag_of(std::string_view file);

Result<std::vector<std::string>> choose_files(const std::vector<std::string>& all, std::string_view tag);

}  // namespace pagoda
