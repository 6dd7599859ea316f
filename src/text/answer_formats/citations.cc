#include "text/answer_formats/citations.h"

namespace pagoda::answer {
namespace {

constexpr std::string_view kOpen = "<co>";
constexpr std::string_view kClose = "</co";  // followed by the sources: ": 0:[1,2],1:[3,4]", up to '>'
constexpr std::size_t kMaxTag = 256;

enum class Tag { whole, maybe, none };

// Classifies the tag at the start of `text`, which begins with '<'.
Tag read_tag(std::string_view text) {
  if (text == kOpen) return Tag::whole;
  if (kOpen.starts_with(text) || kClose.starts_with(text)) return Tag::maybe;
  if (!text.starts_with(kClose) || text.size() > kMaxTag) return Tag::none;
  const std::string_view rest = text.substr(kClose.size());
  if (rest.front() != ':' && rest.front() != '>') return Tag::none;
  const std::size_t odd = rest.find_first_not_of(": 0123456789,[]");
  if (odd == std::string_view::npos) return Tag::maybe;
  return rest[odd] == '>' ? Tag::whole : Tag::none;
}

}  // namespace

void CitationFilter::push(std::string_view text, const Sink& out) {
  while (!text.empty()) {
    if (held_.empty()) {
      const std::size_t tag = text.find('<');
      if (tag != 0) out(text.substr(0, tag));
      if (tag == std::string_view::npos) return;
      text.remove_prefix(tag);
    } else if (text.front() == '<') {  // a tag contains no '<'
      out(held_);
      held_.clear();
    }
    held_ += text.front();
    text.remove_prefix(1);
    switch (read_tag(held_)) {
      case Tag::whole:
        held_.clear();
        break;
      case Tag::none:
        out(held_);
        held_.clear();
        break;
      case Tag::maybe:
        break;
    }
  }
}

void CitationFilter::finish(const Sink& out) {
  if (!held_.empty()) out(held_);
  held_.clear();
}

}  // namespace pagoda::answer
