#pragma once
// Determines the files that a MODEL argument refers to, from names and folders only; opens no weights.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/model_source.h"

namespace pagoda {

struct ModelFiles {
  ModelFormat format = ModelFormat::hugging_face;
  std::string path;                  // the .gguf file, or the folder
  std::string name;                  // for display: ORG/NAME, or the folder's or file's name
  std::vector<std::string> weights;  // Hugging Face: .safetensors files inside the folder, full paths
  std::string index;                 // model.safetensors.index.json, when the weights are sharded
  bool mistral = false;              // the folder is in Mistral's own form (mistral_folder.h)
  std::string left_out = {};         // unread weights in Mistral's form beside those read; may be empty
};

// Tried in order: existing folder, existing file, hub cache. Errors as in ModelSource::open.
Result<ModelFiles> find_model_files(const std::string& model, const HubPaths& hub);

// Returns a folder's files. not_found: no weights. invalid_argument: several .gguf files, or only pickles.
Result<ModelFiles> model_files_in_folder(const std::string& folder);

// Returns the path of a file in a folder.
std::string in_folder(const std::string& folder, std::string_view name);

// "STEM-00002-of-00003.gguf".
std::string gguf_part_path(std::string_view stem, std::int64_t part, std::int64_t count);

// Returns the files of a split GGUF model whose first is `first`, NAME-00001-of-0000N.gguf, where N must be
// `count`; empty if the name differs.
std::vector<std::string> gguf_part_paths(const std::string& first, std::int64_t count);

// True if the file begins like a GGUF file, whatever its name.
bool has_gguf_magic(const std::string& path);

// True if a file of this name is the vision or audio part of a GGUF model, stored beside the model:
// "mmproj-F16.gguf".
bool is_projector_name(std::string_view name);

// True if the name is a single path component: no separator, not "." or "..".
bool plain_file_name(std::string_view name);

}  // namespace pagoda
