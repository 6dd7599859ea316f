#pragma once
// Finds a model named ORG/NAME[@REV] in a local Hugging Face cache:
//     CACHE/models--ORG--NAME/refs/REV        holds a commit; REV is "main" unless given
//     CACHE/models--ORG--NAME/snapshots/COMMIT/   the folder
// Reads folders only: no network, no environment.
// Source: the cache layout of huggingface_hub ("Understand caching").
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "loader/model_source.h"

namespace pagoda {

struct HubName {
  std::string repository;  // "ORG/NAME"; "NAME" for old models without an owner
  std::string revision = "main";
};

// Returns nullopt if `text` cannot be a name on the hub. Accepted names are safe to build a path from.
std::optional<HubName> parse_hub_name(std::string_view text);

// Returns the snapshot's folder; nullopt if it is in no cache. Appends every place searched to `tried`.
std::optional<std::string> find_in_hub_cache(const HubName& name, const HubPaths& hub,
                                             std::vector<std::string>& tried);

}  // namespace pagoda
