#pragma once
// The model that serve and chat take when none is named: the file that script/server puts in the cache.
#include <string>

#include "base/status.h"

namespace pagoda {

// $PAGODA_CACHE, else $XDG_CACHE_HOME/pagoda, else ~/.cache/pagoda.
std::string cache_directory();

// Name of the model at a path: the file's without .gguf, or the folder's.
std::string model_name_of(const std::string& path);

// Path of the default model's file, which may be missing.
std::string default_model_path();

// The same for a file that is there. not_found, saying how to get it, when it is not there.
Result<std::string> default_model();

}  // namespace pagoda
