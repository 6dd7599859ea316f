#pragma once
// The model that serve and chat use by default: the file that script/server puts into the cache.
#include <string>

#include "base/status.h"

namespace pagoda {

// $PAGODA_CACHE, else $XDG_CACHE_HOME/pagoda, else ~/.cache/pagoda.
std::string cache_directory();

// Returns the name of the model at a path: the file name without .gguf, or the folder's name.
std::string model_name_of(const std::string& path);

// Returns the path of the default model's file, which may not exist.
std::string default_model_path();

// Returns the path if the file exists. not_found: the message says how to get the file.
Result<std::string> default_model();

}  // namespace pagoda
