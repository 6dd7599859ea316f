#include "jinja/string_builder.h"

#include <algorithm>

#include "jinja/render.h"

namespace pagoda::jinja {

void StringBuilder::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!user_.empty() && user_.back().end == begin) {
    user_.back().end = end;
  } else {
    user_.push_back({begin, end});
  }
}

void StringBuilder::append(std::string_view text, bool user) {
  const std::size_t begin = bytes_.size();
  bytes_.append(text);
  if (user) mark(begin, bytes_.size());
}

void StringBuilder::append(const String& text, std::size_t begin, std::size_t end) {
  const std::size_t base = bytes_.size();
  bytes_.append(text.bytes, begin, end - begin);
  auto range = std::lower_bound(text.user_ranges.begin(), text.user_ranges.end(), begin,
                                [](const ByteRange& r, std::size_t at) { return r.end <= at; });
  for (; range != text.user_ranges.end() && range->begin < end; ++range) {
    mark(base + std::max(range->begin, begin) - begin, base + std::min(range->end, end) - begin);
  }
}

Value StringBuilder::take(Render& render, bool markup) {
  render.charge(bytes_.size() + user_.size() * sizeof(ByteRange));
  return Value::string(String(std::move(bytes_), std::move(user_), markup));
}

Value substring(Render& render, const String& text, std::size_t begin, std::size_t end) {
  StringBuilder builder;
  builder.append(text, begin, end);
  return builder.take(render, text.markup);
}

}  // namespace pagoda::jinja
