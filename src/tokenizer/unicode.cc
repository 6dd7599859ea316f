#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "base/utf8.h"

namespace pagoda {
namespace {

#include "tokenizer/unicode_ranges.inc"

constexpr CodePointRange kWhiteSpace[] = {
    {0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},     {0x1680, 0x1680},
    {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}};

struct ClassRanges {
  CharClass which;
  std::span<const CodePointRange> ranges;
};
const std::array<ClassRanges, 10> kClasses = {{{CharClass::letter, kLetter},
                                               {CharClass::number, kNumber},
                                               {CharClass::mark, kMark},
                                               {CharClass::white_space, kWhiteSpace},
                                               {CharClass::numeric, kNumeric},
                                               {CharClass::punctuation, kPunctuation},
                                               {CharClass::control, kControl},
                                               {CharClass::nonspacing_mark, kNonspacingMark},
                                               {CharClass::combining_mark, kCombiningMark},
                                               {CharClass::word, kWord}}};

bool contains(std::span<const CodePointRange> ranges, char32_t c) {
  const auto it =
      std::partition_point(ranges.begin(), ranges.end(), [&](const auto& r) { return r.last < c; });
  return it != ranges.end() && it->first <= c;
}

// True for characters that start a new segment in every form: starters that never combine with preceding
// characters. Omitting some only makes segments longer.
bool starts_segment(char32_t c) {
  return c < 0x300 || (c >= 0x400 && c < 0x483) || (c >= 0x3400 && c < 0xA000) ||
         (c >= 0xAC00 && c < 0xD7A4) || (c >= 0x3041 && c < 0x3097) || (c >= 0x30A1 && c < 0x30FB) ||
         (c >= 0x1F000 && c < 0x1FB00);
}

// Canonical order: sorts each run of marks by combining class, stably. (utf8proc's own sort is quadratic in
// the length of the run.)
void order_marks(std::vector<utf8proc_int32_t>& segment) {
  const auto combining = [](utf8proc_int32_t c) {
    return static_cast<std::uint64_t>(static_cast<std::uint16_t>(utf8proc_get_property(c)->combining_class));
  };
  std::vector<std::pair<std::uint64_t, utf8proc_int32_t>> run;  // class and position, character
  for (std::size_t begin = 0; begin < segment.size(); ++begin) {
    if (combining(segment[begin]) == 0) continue;
    std::size_t end = begin;
    run.clear();
    for (; end < segment.size() && combining(segment[end]) != 0; ++end)
      run.emplace_back(combining(segment[end]) << 32 | end, segment[end]);
    std::sort(run.begin(), run.end());
    for (std::size_t i = 0; i < run.size(); ++i) segment[begin + i] = run[i].second;
    begin = end - 1;
  }
}

}  // namespace

const CharTable& CharTable::get() {
  static const CharTable table;
  return table;
}

CharTable::CharTable() : flags_(kDirect, 0) {
  for (const auto& [which, ranges] : kClasses) {
    for (const CodePointRange& range : ranges) {
      if (range.first >= kDirect) break;
      for (char32_t c = range.first; c <= range.last && c < kDirect; ++c)
        flags_[c] |= static_cast<std::uint16_t>(which);
    }
  }
}

std::uint16_t CharTable::beyond(char32_t c) const {
  std::uint16_t flags = 0;
  for (const auto& [which, ranges] : kClasses)
    if (contains(ranges, c)) flags |= static_cast<std::uint16_t>(which);
  return flags;
}

void append_lower_case(std::string& out, char32_t c) {
  if (c < 0x80) {
    out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
    return;
  }
  if (c == 0x130) {
    out += "i\xCC\x87";
    return;
  }
  const auto it = std::partition_point(std::begin(kLowerCase), std::end(kLowerCase),
                                       [&](const LowerCaseRun& run) { return run.last < c; });
  if (it != std::end(kLowerCase) && it->first <= c && (c - it->first) % it->step == 0)
    c = static_cast<char32_t>(static_cast<std::int32_t>(c) + it->distance);
  append_code_point(out, c);
}

void normalize_unicode(NormalForm form, std::string_view text, std::string& out,
                       std::vector<std::uint32_t>* origins, std::uint32_t base) {
  const bool compose = form == NormalForm::nfc || form == NormalForm::nfkc;
  const bool compatibility = form == NormalForm::nfkc || form == NormalForm::nfkd;
  const std::span<const CodePointRange> kept =
      compatibility ? std::span<const CodePointRange>(kNoNFKD) : std::span<const CodePointRange>(kNoNFD);
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (compatibility ? UTF8PROC_COMPAT : 0));
  std::vector<utf8proc_int32_t> segment;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t begin = at;
    // Plain ASCII is its own normal form; the last character may belong to a mark that follows.
    while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
    if (at < text.size() && at > begin) --at;
    if (at > begin) {
      out += text.substr(begin, at - begin);
      if (origins)
        for (std::size_t i = begin; i < at; ++i) origins->push_back(base + static_cast<std::uint32_t>(i));
      continue;
    }
    segment.clear();
    char32_t c = next_code_point(text, at);
    while (true) {
      if (c < 0x80 || contains(kept, c)) {
        segment.push_back(static_cast<utf8proc_int32_t>(c));
      } else {
        std::array<utf8proc_int32_t, 32> pieces;
        int boundary = 0;
        const auto length =
            utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), pieces.data(),
                                    static_cast<utf8proc_ssize_t>(pieces.size()), options, &boundary);
        if (length > 0 && length <= static_cast<utf8proc_ssize_t>(pieces.size()))
          segment.insert(segment.end(), pieces.begin(), pieces.begin() + length);
        else
          segment.push_back(static_cast<utf8proc_int32_t>(c));
      }
      if (at == text.size()) break;
      std::size_t ahead = at;
      c = next_code_point(text, ahead);
      if (starts_segment(c)) break;
      at = ahead;
    }
    order_marks(segment);
    auto length = static_cast<utf8proc_ssize_t>(segment.size());
    if (compose) {
      const auto composed = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
      length = std::max<utf8proc_ssize_t>(0, utf8proc_normalize_utf32(segment.data(), length, composed));
    }
    const std::size_t before = out.size();
    for (utf8proc_ssize_t i = 0; i < length; ++i)
      append_code_point(out, static_cast<char32_t>(segment[static_cast<std::size_t>(i)]));
    if (origins)
      origins->insert(origins->end(), out.size() - before, base + static_cast<std::uint32_t>(begin));
  }
}

std::size_t next_grapheme_end(std::string_view text, std::size_t position) {
  std::size_t at = position;
  char32_t before = next_code_point(text, at);
  utf8proc_int32_t state = 0;
  while (at < text.size()) {
    std::size_t ahead = at;
    const char32_t c = next_code_point(text, ahead);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                         static_cast<utf8proc_int32_t>(c), &state))
      break;
    before = c;
    at = ahead;
  }
  return at;
}

bool is_decimal_digit(char32_t c) {
  if (c < 0x80) return c >= U'0' && c <= U'9';
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_ND;
}

}  // namespace pagoda
