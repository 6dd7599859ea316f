#pragma once
// choose_files(): selects the files of a repository that form one model, by their names only.
// With a tag: the GGUF files with that tag, including all parts of a split file. Without: the safetensors and
// the files that belong to them (configuration, tokenizer, template, modules of sentence-transformers), never
// pickles; otherwise the only GGUF model, or Q4_K_M. Errors: not_found lists the available files;
// invalid_argument for a name that leaves the folder or a missing part. Threads: any.
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pagoda {

// True if `name` is safe as a file below a folder: no "..", no empty component, only printable text.
bool safe_file_name(std::string_view name);

// True if a GGUF file's name contains `tag` as a word, ignoring case; Q4_K does not match "Q4_K_M".
bool has_tag(std::string_view file, std::string_view tag);

// The word of a GGUF file's name that gives its weight type: "Q4_K_M", "IQ3_XS", "BF16"; otherwise the name,
// without the part number for a split model.
std::string tag_of(std::string_view file);

Result<std::vector<std::string>> choose_files(const std::vector<std::string>& all, std::string_view tag);

}  // namespace pagoda
