#pragma once
// Pre-tokenizers: split normalized text into the pieces that the model encodes independently. They form a
// chain through which pieces flow one at a time, so that no list of pieces is ever built.
//
//     text -> Split -> Digits -> ... -> the model
//
// Source of the definitions: Hugging Face `tokenizers`, pre_tokenizers/.
// Threads: any; all const.
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/regex.h"

namespace pagoda {

struct Piece {
  std::string_view text;
  bool at_origin = false;  // the piece starts at the start of the original text
};

class PieceSink {
 public:
  virtual void piece(const Piece& piece) = 0;  // its text is only valid during the call

 protected:
  ~PieceSink() = default;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Passes the pieces of `input`, none of them empty, to `out`. False if a pattern's match limit is reached.
  [[nodiscard]] virtual bool split(const Piece& input, PieceSink& out) const = 0;
};
using PreTokenizerPtr = std::unique_ptr<PreTokenizer>;

// Treatment of a match. "the-final--countdown", split at '-', gives:
enum class SplitBehavior {
  removed,               // the final countdown
  isolated,              // the - final - - countdown
  merged_with_previous,  // the- final- - countdown
  merged_with_next,      // the -final - -countdown
  contiguous,            // the - final -- countdown
};
enum class PrependScheme { first, never, always };

PreTokenizerPtr make_split(Regex pattern, SplitBehavior behavior, bool invert);
// Hand-written code for the most common patterns, and for one whose regular expression is quadratic; gives
// the same pieces. Null if this split at `pattern` is not one of them.
PreTokenizerPtr make_known_split(std::string_view pattern, SplitBehavior behavior = SplitBehavior::isolated,
                                 bool invert = false);
extern const std::string_view kGpt2Pattern;
PreTokenizerPtr make_digit_groups();  // a split at kDigitGroupsPattern (isolated), whose matches are empty
extern const std::string_view kDigitGroupsPattern;
PreTokenizerPtr make_byte_level_pre_tokenizer(bool add_prefix_space, bool use_regex, bool map_bytes);
PreTokenizerPtr make_metaspace(std::string replacement, PrependScheme scheme, bool split);
PreTokenizerPtr make_digits(bool individual);
PreTokenizerPtr make_punctuation(SplitBehavior behavior);
PreTokenizerPtr make_whitespace();
PreTokenizerPtr make_whitespace_split();
PreTokenizerPtr make_bert_pre_tokenizer();
PreTokenizerPtr make_char_delimiter_split(std::string delimiter);
PreTokenizerPtr make_fixed_length(std::size_t length);
PreTokenizerPtr make_sequence_pre_tokenizer(std::vector<PreTokenizerPtr> steps);

}  // namespace pagoda
