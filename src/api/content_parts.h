#pragma once
// The parts of a message's content, in the words of all protocols -> texts. One table says what each type of
// part is: a text under some name, a thought, a composite of texts (documents, search results), something
// that only the provider can read, or media, which is refused where it is asked about. Threads: none.
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

// Images, audio and files are refused, or, in a tool's result, named: a line stands for each, and the client
// is warned, so that an agent whose tool took a screenshot can go on.
enum class Media : std::uint8_t { refused, named };

// The line that stands for an image or whatever it is; the warning names the field `path`.
std::string media_note(std::string_view path, std::string_view what, Warnings& warnings);

// The text of the part that `part` reads. None: an error is left in `part`, or it cannot be shown and is left
// out with a warning.
std::optional<PartText> read_part(FieldReader& part, Warnings& warnings, Media media = Media::refused);

// Each of the list `parts`, the field `name` of `owner`: an object, or a text by itself. Thoughts go to
// `thoughts` where that is given, and are texts like others else.
std::vector<ContentPart> read_parts(FieldReader& owner, std::string_view name,
                                    const boost::json::array& parts, Warnings& warnings,
                                    std::string* thoughts = nullptr, Media media = Media::refused);

}  // namespace pagoda
