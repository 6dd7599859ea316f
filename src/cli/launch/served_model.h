#pragma once
// Determines the model of a running server from its /v1/models. Threads: any.
#include <cstdint>
#include <string>

#include "base/status.h"
#include "hub/url.h"

namespace pagoda {

struct ServedModel {
  std::string name;
  std::int64_t max_model_len = 0;  // 0: not reported
};

// Converts an address typed by the user, with or without /v1 at the end, into the API's address, which ends
// in /v1. invalid_argument, naming --url.
Result<Url> api_url(const std::string& typed);

// Returns the model `name`, or the first model listed by the server if `name` is empty. unavailable: no
// answer, or the server refuses. not_found: the server does not have the model.
Result<ServedModel> served_model(const Url& api, const std::string& key, const std::string& name);

// The error of a failed call, extended by the server's address and how to start a server.
Status not_reached(const Status& error, const Url& api);

}  // namespace pagoda
