#pragma once
// The model that serve and chat take when none is named: the file that script/server puts in the cache.
#include <string>

#include "base/status.h"

namespace pagoda {

// $PAGODA_CACHE, else $XDG_CACHE_HOME/pagoda, else ~/.cache/pagoda.
std::string cache_directory();

// Path of the default model's file. not_found, saying how to get it, when it is not there.
Result<std::string> default_model();

}  // namespace pagoda
