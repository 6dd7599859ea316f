#pragma once
// Which model a running server has, as its /v1/models says. Threads: any.
#include <cstdint>
#include <string>

#include "base/status.h"
#include "hub/url.h"

namespace pagoda {

struct ServedModel {
  std::string name;
  std::int64_t max_model_len = 0;  // 0: the server does not say
};

// The address of a server's API from one that a user typed, with /v1 at its end or without: it ends in /v1.
// invalid_argument, naming --url.
Result<Url> api_url(const std::string& typed);

// `name`, or the first that the server at `api` lists where that is empty. unavailable: nobody answers, or
// the server refuses. not_found: it has no such model.
Result<ServedModel> served_model(const Url& api, const std::string& key, const std::string& name);

// A call that did not get through, with the server's address and how to start one.
Status not_reached(const Status& error, const Url& api);

}  // namespace pagoda
