#pragma once
// Converts the content parts of messages, in all protocols, to text. One table classifies the types of parts:
// text, thoughts, composites of texts (documents, search results), files (read if their content is text),
// data that only the provider can read, and media, which are refused in user messages. Threads: none.
#include <boost/json/array.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/field_reader.h"
#include "api/warnings.h"
#include "text/conversation.h"

namespace pagoda {

struct PartText {
  std::string text;
  bool thought = false;  // the assistant's reasoning
};

// Images, audio and files are refused or, in a tool's result, replaced by a line of text with a warning, so
// that an agent whose tool took a screenshot can continue.
enum class Media : std::uint8_t { refused, named };

// The line that replaces an image or other media; the warning names the field `path`.
std::string media_note(std::string_view path, std::string_view what, Warnings& warnings);

// The text of the content part behind `part`. nullopt if `part` has an error, or if the part is left out with
// a warning.
std::optional<PartText> read_part(FieldReader& part, Warnings& warnings, Media media = Media::refused);

// Reads the list `parts`, which is field `name` of `owner`: each entry is an object or a plain string.
// Thoughts go to `thoughts`; if that is null, they are treated as text.
std::vector<ContentPart> read_parts(FieldReader& owner, std::string_view name,
                                    const boost::json::array& parts, Warnings& warnings,
                                    std::string* thoughts = nullptr, Media media = Media::refused);

}  // namespace pagoda
