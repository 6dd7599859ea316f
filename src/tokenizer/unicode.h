#pragma once
// Unicode data for tokenizers: character classes, lower case, normalization forms. The classes are those of
// Hugging Face `tokenizers` (unicode_ranges.inc describes how they were obtained), not those of a library
// here.
// Threads: any.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda {

struct CodePointRange {
  std::uint32_t first, last;
};

struct LowerCaseRun {  // every step-th character from first to last
  std::uint32_t first, last, step;
  std::int32_t distance;
};

enum class CharClass : std::uint16_t {
  letter = 1,        // \p{L} of the regular expressions
  number = 2,        // \p{N} of the regular expressions
  mark = 4,          // \p{M} of the regular expressions
  white_space = 8,   // \s
  numeric = 16,      // the Digits pre-tokenizer
  punctuation = 32,  // the Punctuation and Bert pre-tokenizers
  control = 64,      // removed by the Bert normalizer
  nonspacing_mark = 128,
  combining_mark = 256,  // removed by StripAccents
  word = 512,            // \w of the Whitespace pre-tokenizer
};

// The table behind has_class, for loops that test many characters.
class CharTable {
 public:
  static const CharTable& get();
  std::uint16_t operator[](char32_t c) const { return c < kDirect ? flags_[c] : beyond(c); }

 private:
  static constexpr char32_t kDirect = 0x32400;
  CharTable();
  std::uint16_t beyond(char32_t c) const;
  std::vector<std::uint16_t> flags_;
};

inline bool has_class(char32_t c, CharClass which) {
  return (CharTable::get()[c] & static_cast<std::uint16_t>(which)) != 0;
}
bool is_decimal_digit(char32_t c);  // \d of the regular expressions
inline bool is_white_space(char32_t c) { return has_class(c, CharClass::white_space); }

// Appends the lower case of `c` (U+0130 becomes two characters; no context such as the final sigma).
void append_lower_case(std::string& out, char32_t c);

enum class NormalForm { nfc, nfd, nfkc, nfkd };

// Appends the normal form of well-formed `text`. If `origins` is given, appends to it, for each byte, `base`
// plus the offset in `text` of its character (the first one of those that interact).
void normalize_unicode(NormalForm form, std::string_view text, std::string& out,
                       std::vector<std::uint32_t>* origins = nullptr, std::uint32_t base = 0);

// The end of the extended grapheme cluster that starts at `position`.
std::size_t next_grapheme_end(std::string_view text, std::size_t position);

}  // namespace pagoda
