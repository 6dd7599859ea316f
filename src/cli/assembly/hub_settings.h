#pragma once
// Settings of hub/ from the environment: HF_ENDPOINT, HF_TOKEN (or the file of `hf auth login`),
// HF_HUB_OFFLINE, and the cache (hub_paths.h).
// Fetching shows its progress on stderr.
#include "base/status.h"
#include "cli/flags/engine_flags.h"
#include "hub/pull.h"

namespace pagoda {

// Fetches with a progress bar. `token`: instead of the environment's; empty: that one. unavailable under
// HF_HUB_OFFLINE.
Result<Pulled> pull_with_progress(const PullName& name, const std::string& token = {});

// Fetches a model named ORG/NAME[:TAG] unless a file or folder has that name. With a tag, flags.model becomes
// the file, served under the name that was typed unless another is given. Under mpirun nothing is fetched.
Status fetch_if_missing(EngineFlags& flags);

// The same for a command without an engine: a path; of ORG/NAME the folder or file in the cache.
Result<std::string> local_model(const std::string& model);

// "; did you mean qwen3?" for a mistyped short name of hub/short_names.h; empty where none is near.
std::string nearest_short_name(const std::string& name);

}  // namespace pagoda
