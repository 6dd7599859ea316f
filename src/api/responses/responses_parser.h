#pragma once
// Bodies of /v1/responses and /v1/responses/input_tokens -> ResponsesCall. What an earlier answer said comes
// out of the store. Unknown fields are ignored; what changes the answer and is not built is refused by name.
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
  bool store = false;                  // asked for, and there is a store
  boost::json::object shown;           // the fields of the response that only repeat the call
  boost::json::array conversation;     // all items up to here, those of earlier answers too
  std::size_t first_of_this_call = 0;  // first message of this call in `conversation`
};

Result<ResponsesCall> parse_responses_call(std::string_view body, std::string_view owner,
                                           const ApiContext& context);

}  // namespace pagoda
