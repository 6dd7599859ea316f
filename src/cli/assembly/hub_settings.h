#pragma once
// Settings of hub/ from the environment: HF_ENDPOINT, HF_TOKEN (or the file of `hf auth login`),
// HF_HUB_OFFLINE, and the cache (hub_paths.h).
// Downloads show their progress on stderr.
#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "hub/pull.h"

namespace pagoda {

// Downloads a model with a progress bar. `token` replaces the environment's token unless empty. unavailable
// if HF_HUB_OFFLINE is set.
Result<Pulled> pull_with_progress(const PullName& name, const std::string& token = {});

// Downloads a model named ORG/NAME[:TAG] unless a file or folder has that name. With a tag, flags.model
// becomes the file, and the served name defaults to the name typed. Does not download under mpirun.
Status fetch_if_missing(EngineFlags& flags);

// The same for commands without an engine: returns a path as is, and for ORG/NAME the folder or file in the
// cache.
Result<std::string> local_model(const std::string& model);

// Returns "; did you mean qwen3?" for a mistyped short name of hub/short_names.h; empty if no name is
// similar.
std::string nearest_short_name(const std::string& name);

}  // namespace pagoda
