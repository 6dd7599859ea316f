// SuperBPE's groups of three digits, counted from the end of a run: "1234567" -> 1 234 567. Its regular
// expression scans the whole run from each of its digits.
#include "base/utf8.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/unicode.h"

namespace pagoda {

const std::string_view kDigitGroupsPattern = R"((?=(\d{3})+(?!\d)))";

namespace {

class DigitGroups final : public PreTokenizer {
 public:
  bool split(const Piece& input, PieceSink& out) const override {
    const std::string_view text = input.text;
    std::size_t begin = 0;  // start of the current piece
    const auto cut = [&](std::size_t at) {
      if (at > begin) out.piece({text.substr(begin, at - begin), input.at_origin && begin == 0});
      begin = at;
    };
    for (std::size_t at = 0; at < text.size();) {
      std::size_t digits = 0, end = at;
      for (std::size_t next = at; next < text.size() && is_decimal_digit(next_code_point(text, next));
           end = next)
        ++digits;
      if (digits == 0) {
        at += utf8_length(text[at]);
        continue;
      }
      for (; at < end; at += utf8_length(text[at]), --digits)
        if (digits % 3 == 0) cut(at);
    }
    cut(text.size());
    return true;
  }
};

}  // namespace

PreTokenizerPtr make_digit_groups() { return std::make_unique<DigitGroups>(); }

}  // namespace pagoda
