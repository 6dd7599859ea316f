#pragma once
// Reads tools and calls as most protocols write them: {"type": "function", "function": {…}}, with arguments
// as JSON text or as an object. Threads: any.
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/field_reader.h"
#include "api/json.h"
#include "text/conversation.h"

namespace pagoda {

inline constexpr std::size_t kMaxMessages = 16384;  // per conversation, including their parts
inline constexpr std::size_t kMaxTools = 4096;      // declared, or called in one message
inline constexpr std::size_t kMaxToolNameBytes = 256;
inline constexpr std::size_t kMaxArgumentKeys = kMaxJsonKeys;    // over all calls of a conversation
inline constexpr std::size_t kAnyLength = std::size_t{1} << 30;  // bounded by the body's size

// One of `tools`, {"type": "function", "function": {"name", "description", "parameters"}}; passed to the
// template unchanged. Errors are reported through `tool`.
ToolSpec read_function_tool(FieldReader& tool, const boost::json::object& value);

// A call's arguments, in the field `name`: an object, or a string that holds the JSON of one unless the model
// made a mistake. Any string is accepted, so that such a mistake does not end the conversation. The keys in
// strings are deducted from `keys_left`, which they must not exceed.
ToolArguments read_call_arguments(FieldReader& call, std::string_view name, std::size_t& keys_left);

// Nine letters and digits, as Mistral's templates require; a function of the arguments only.
std::string tool_call_id(std::string_view answer_id, std::size_t choice, std::int32_t call);

}  // namespace pagoda
