#pragma once
// Bodies of /v1/responses and /v1/responses/input_tokens -> ResponsesCall. Earlier answers are read from the
// store. Unknown fields are ignored; unsupported fields that would change the answer are refused by name.
// Errors name the field by its dotted path. Threads: any.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <string_view>

#include "api/api_context.h"
#include "api/chat_call.h"
#include "base/status.h"

namespace pagoda {

struct ResponsesCall {
  ChatCall chat;
  bool stream = false;
  bool background = false;
  bool store = false;                  // requested, and there is a store
  boost::json::object shown;           // response fields that only echo the call
  boost::json::array conversation;     // all items so far, including those of earlier answers
  std::size_t first_of_this_call = 0;  // index in `conversation`
};

Result<ResponsesCall> parse_responses_call(std::string_view body, std::string_view owner,
                                           const ApiContext& context);

}  // namespace pagoda
