#pragma once
// Functions shared by string methods and filters; each tracks which bytes came from the context.
#include <optional>
#include <string_view>

#include "jinja/render.h"

namespace pagoda::jinja {

enum class Sides { both, left, right };

// If `chars` is null, strips white space.
Value strip(Render& render, const String& text, const String* chars, Sides sides);
Value replace(Render& render, const String& text, const String& old, const String& with, std::int64_t count);
Value to_upper(Render& render, const String& text);
Value to_lower(Render& render, const String& text);
Value capitalize(Render& render, const String& text);
// The number of characters missing to `width`, which may be any integer.
inline std::int64_t padding(const String& text, std::int64_t width) {
  return width > text.num_chars ? width - text.num_chars : 0;
}
Value center(Render& render, const String& text, std::int64_t width, std::string_view fill);
std::vector<Value> split_lines(Render& render, const String& text, bool keep_ends);
std::vector<Value> split_space(Render& render, const String& text, std::int64_t max_splits);
std::vector<Value> split_on(Render& render, const String& text, const String& separator,
                            std::int64_t max_splits, bool from_right);
Value join(Render& render, const String& separator, const std::vector<Value>& items);  // joins str(item)
bool is_user_at(const String& text, std::size_t byte);
Value reverse_text(Render& render, const String& text);

}  // namespace pagoda::jinja
