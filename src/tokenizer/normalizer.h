#pragma once
// Normalizers: the first step of encoding, text -> text. On demand, each tracks the origin of every byte.
// Source of the definitions: Hugging Face `tokenizers`, normalizers/.
// Threads: any; all const.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

namespace pagoda {

struct NormalizedText {
  std::string text;
  // For each byte of `text`, the offset of its character in the text before normalisation; empty unless
  // `tracked`.
  std::vector<std::uint32_t> origins;
  bool tracked = false;
  // Bound on a normalizer's output, so that no chain of replacements fills the memory. Many times the output
  // of real models' normalizers, which write at most 18 bytes per byte.
  std::size_t max_bytes = 0;

  static NormalizedText of(std::string_view text, bool tracked);
  // An empty text with the same settings.
  NormalizedText like() const {
    NormalizedText out;
    out.tracked = tracked;
    out.max_bytes = max_bytes;
    return out;
  }
  void append(std::string_view bytes, std::uint32_t origin) {
    text += bytes;
    if (tracked) origins.insert(origins.end(), bytes.size(), origin);
  }
  // Appends a part of `other` unchanged.
  void append_part(const NormalizedText& other, std::size_t begin, std::size_t end) {
    text.append(other.text, begin, end - begin);
    if (tracked) {
      using Offset = std::ptrdiff_t;
      origins.insert(origins.end(), other.origins.begin() + static_cast<Offset>(begin),
                     other.origins.begin() + static_cast<Offset>(end));
    }
  }
  bool too_long() const { return text.size() > max_bytes; }
  std::uint32_t origin(std::size_t at) const { return tracked ? origins[at] : 0; }
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text` is well-formed UTF-8 before and after. invalid_argument if a pattern's match limit is reached or
  // the text becomes too long.
  virtual Status apply(NormalizedText& text) const = 0;
};
using NormalizerPtr = std::unique_ptr<Normalizer>;
Status grows_too_much();  // the error for a text that has become too long

struct BertNormalizerOptions {
  bool clean_text = true, handle_chinese_chars = true, strip_accents = false, lowercase = true;
};

NormalizerPtr make_unicode_normalizer(NormalForm form);
NormalizerPtr make_lowercase_normalizer();
NormalizerPtr make_strip_normalizer(bool left, bool right);
NormalizerPtr make_strip_accents_normalizer();
NormalizerPtr make_nmt_normalizer();
NormalizerPtr make_replace_normalizer(Regex pattern, std::string content);
NormalizerPtr make_replace_string_normalizer(std::string pattern, std::string content);
NormalizerPtr make_prepend_normalizer(std::string prefix);
NormalizerPtr make_byte_level_normalizer();
NormalizerPtr make_bert_normalizer(BertNormalizerOptions options);
// `charsmap` as in tokenizer.json ("Precompiled"): applied to grapheme clusters, then to characters.
Result<NormalizerPtr> make_precompiled_normalizer(std::string_view charsmap);
struct SentencePieceOptions {
  std::string charsmap;  // may be empty
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
  bool whitespace_as_suffix = false;
  std::vector<std::string> user_defined;  // symbols that the charsmap does not change
};
// SentencePiece's own normalizer: longest match in the charsmap, white space rules, U+2581 for space.
Result<NormalizerPtr> make_sentencepiece_normalizer(SentencePieceOptions options);
NormalizerPtr make_sequence_normalizer(std::vector<NormalizerPtr> steps);

}  // namespace pagoda
