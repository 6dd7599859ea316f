#pragma once
// Tools and calls as most protocols write them: {"type": "function", "function": {…}} and arguments as JSON
// text or as an object. Threads: any.
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "api/field_reader.h"
#include "api/json.h"
#include "text/conversation.h"

namespace pagoda {

inline constexpr std::size_t kMaxMessages = 16384;  // messages of a conversation, with the parts of each
inline constexpr std::size_t kMaxTools = 4096;      // declared, and called in one message
inline constexpr std::size_t kMaxToolNameBytes = 256;
inline constexpr std::size_t kMaxArgumentKeys = kMaxJsonKeys;    // keys of all calls of a conversation
inline constexpr std::size_t kAnyLength = std::size_t{1} << 30;  // the body's size bounds it

// One of `tools`, {"type": "function", "function": {"name", "description", "parameters"}}; shown to the
// template as it is. What is wrong is said through `tool`.
ToolSpec read_function_tool(FieldReader& tool, const boost::json::object& value);

// A call's arguments, in the field `name`: an object, or a text, which is the JSON of one unless the model
// has made a mistake. A conversation must not die of that, so anything is taken. The keys of texts are taken
// off `keys_left`, and must not be more.
ToolArguments read_call_arguments(FieldReader& call, std::string_view name, std::size_t& keys_left);

// Nine letters and digits, which is what Mistral's templates take; the same for the same answer.
std::string tool_call_id(std::string_view answer_id, std::size_t choice, std::int32_t call);

}  // namespace pagoda
