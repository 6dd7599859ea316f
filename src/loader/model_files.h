#pragma once
// Which files a MODEL argument means. Looks at names and folders only; opens no weights.
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
  std::string name;                  // for people: ORG/NAME, or the folder's or file's name
  std::vector<std::string> weights;  // Hugging Face: .safetensors files inside the folder, full paths
  std::string index;                 // model.safetensors.index.json, when the weights are sharded
  bool mistral = false;              // the folder is read in Mistral's own form (mistral_folder.h)
  std::string left_out = {};         // weights of that form beside those that are read; empty: none
};

// Resolution order: existing folder, existing file, hub cache. Errors as ModelSource::open.
Result<ModelFiles> find_model_files(const std::string& model, const HubPaths& hub);

// A folder's; not_found when it holds no weights. invalid_argument: several .gguf, pickles only.
Result<ModelFiles> model_files_in_folder(const std::string& folder);

// The path of a file of a folder.
std::string in_folder(const std::string& folder, std::string_view name);

// "STEM-00002-of-00003.gguf".
std::string gguf_part_path(std::string_view stem, std::int64_t part, std::int64_t count);

// The files of a split GGUF model, of which `first` is NAME-00001-of-0000N.gguf, N being `count`; empty where
// its name says something else.
std::vector<std::string> gguf_part_paths(const std::string& first, std::int64_t count);

// Whether the file begins as a GGUF file does, whatever its name.
bool has_gguf_magic(const std::string& path);

// Whether a file of this name is the vision or audio part of a model in GGUF, which stands beside the model:
// "mmproj-F16.gguf".
bool is_projector_name(std::string_view name);

// True for a name that is one path component: no separator, not "." or "..".
bool plain_file_name(std::string_view name);

}  // namespace pagoda
