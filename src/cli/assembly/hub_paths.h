#pragma once
// Finds the local Hugging Face cache from environment variables, in huggingface_hub's order: HF_HUB_CACHE,
// HUGGINGFACE_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub, ~/.cache/huggingface/hub. The first
// variable that is set is used.
#include "loader/model_source.h"

namespace pagoda {

HubPaths hub_paths_from_environment();

// The file in which `hf auth login` stores the token: HF_TOKEN_PATH, or "token" beside the cache.
std::string hub_token_file_from_environment();

}  // namespace pagoda
