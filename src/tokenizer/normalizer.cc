#include "tokenizer/normalizer.h"

#include "base/strings.h"
#include "base/utf8.h"
#include "tokenizer/byte_level.h"

namespace pagoda {
namespace {

// A normalizer that processes each character independently: append(c, bytes, out) writes its replacement.
template <class Append>
class PerCharacter final : public Normalizer {
 public:
  explicit PerCharacter(Append append) : append_(append) {}
  Status apply(NormalizedText& text) const override {
    NormalizedText out = text.like();
    out.text.reserve(text.text.size());
    std::string piece;
    for (std::size_t at = 0; at < text.text.size();) {
      const std::size_t begin = at;
      const char32_t c = next_code_point(text.text, at);
      piece.clear();
      append_(piece, c, std::string_view(text.text).substr(begin, at - begin));
      out.append(piece, text.origin(begin));
    }
    text = std::move(out);
    return ok_status();
  }

 private:
  Append append_;
};

template <class Append>
NormalizerPtr per_character(Append append) {
  return std::make_unique<PerCharacter<Append>>(append);
}

class UnicodeForm final : public Normalizer {
 public:
  explicit UnicodeForm(NormalForm form) : form_(form) {}
  Status apply(NormalizedText& text) const override {
    bool ascii = true;
    for (const char byte : text.text) ascii &= static_cast<unsigned char>(byte) < 0x80;
    if (ascii) return ok_status();
    NormalizedText out = text.like();
    out.text.reserve(text.text.size());
    normalize_unicode(form_, text.text, out.text, text.tracked ? &out.origins : nullptr);
    for (std::uint32_t& origin : out.origins) origin = text.origin(origin);
    text = std::move(out);
    return ok_status();
  }

 private:
  NormalForm form_;
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  Status apply(NormalizedText& text) const override {
    std::size_t begin = 0, end = text.text.size();
    while (left_ && begin < end) {
      std::size_t next = begin;
      if (!is_white_space(next_code_point(text.text, next))) break;
      begin = next;
    }
    while (right_ && end > begin) {
      const std::size_t last = previous_character(text.text, end);
      std::size_t at = last;
      if (!is_white_space(next_code_point(text.text, at))) break;
      end = last;
    }
    if (begin == 0 && end == text.text.size()) return ok_status();
    NormalizedText out = text.like();
    out.append_part(text, begin, end);
    text = std::move(out);
    return ok_status();
  }

 private:
  bool left_, right_;
};

class Replace final : public Normalizer {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  Status apply(NormalizedText& text) const override {
    NormalizedText out = text.like();
    out.text.reserve(text.text.size());
    const bool done =
        pattern_.for_each_part(text.text, [&](std::size_t begin, std::size_t end, bool is_match) {
          if (out.too_long()) return;
          if (is_match)
            out.append(content_, end > 0 ? text.origin(end - 1) : 0);
          else
            out.append_part(text, begin, end);
        });
    if (!done)
      return invalid_argument("the tokenizer's normalizer pattern needs too much backtracking on this text");
    if (out.too_long()) return grows_too_much();
    text = std::move(out);
    return ok_status();
  }

 private:
  Regex pattern_;
  std::string content_;
};

class ReplaceString final : public Normalizer {
 public:
  ReplaceString(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  Status apply(NormalizedText& text) const override {
    std::size_t found = pattern_.empty() ? std::string::npos : text.text.find(pattern_);
    if (found == std::string::npos) return ok_status();
    NormalizedText out = text.like();
    out.text.reserve(text.text.size() + text.text.size() / 4);
    std::size_t at = 0;
    for (; found != std::string::npos; found = text.text.find(pattern_, at)) {
      out.append_part(text, at, found);
      at = found + pattern_.size();
      out.append(content_, text.origin(at - 1));
      if (out.too_long()) return grows_too_much();
    }
    out.append_part(text, at, text.text.size());
    text = std::move(out);
    return ok_status();
  }

 private:
  std::string pattern_, content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  Status apply(NormalizedText& text) const override {
    if (text.text.empty()) return ok_status();
    if (text.tracked) text.origins.insert(text.origins.begin(), prefix_.size(), text.origins[0]);
    text.text.insert(0, prefix_);
    return ok_status();
  }

 private:
  std::string prefix_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}
  Status apply(NormalizedText& text) const override {
    for (const NormalizerPtr& step : steps_) {
      PAGODA_RETURN_IF_ERROR(step->apply(text));
      if (text.too_long()) return grows_too_much();
    }
    return ok_status();
  }

 private:
  std::vector<NormalizerPtr> steps_;
};

bool is_chinese_char(char32_t c) {  // the block list of the Bert normalizer, including its mistakes
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

}  // namespace

NormalizedText NormalizedText::of(std::string_view text, bool tracked) {
  constexpr std::size_t kTimes = 64, kAnyway = std::size_t{1} << 16;
  NormalizedText out;
  out.text = text;
  out.tracked = tracked;
  out.max_bytes = kTimes * text.size() + kAnyway;
  if (!tracked) return out;
  out.origins.resize(text.size());
  for (std::size_t at = 0, begin = 0; at < text.size(); ++at) {
    if (!is_utf8_continuation(text[at])) begin = at;
    out.origins[at] = static_cast<std::uint32_t>(begin);
  }
  return out;
}

Status grows_too_much() {
  return invalid_argument("the tokenizer's normalizer makes this text more than 64 times as long");
}

NormalizerPtr make_unicode_normalizer(NormalForm form) { return std::make_unique<UnicodeForm>(form); }

NormalizerPtr make_lowercase_normalizer() {
  return per_character([](std::string& out, char32_t c, std::string_view) { append_lower_case(out, c); });
}

NormalizerPtr make_strip_normalizer(bool left, bool right) { return std::make_unique<Strip>(left, right); }

NormalizerPtr make_strip_accents_normalizer() {
  return per_character([](std::string& out, char32_t c, std::string_view bytes) {
    if (!has_class(c, CharClass::combining_mark)) out += bytes;
  });
}

NormalizerPtr make_nmt_normalizer() {
  return per_character([](std::string& out, char32_t c, std::string_view bytes) {
    const bool removed =
        (c >= 0x1 && c <= 0x8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
    const bool space = c == 0x9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    if (space)
      out += ' ';
    else if (!removed)
      out += bytes;
  });
}

NormalizerPtr make_replace_normalizer(Regex pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}
NormalizerPtr make_replace_string_normalizer(std::string pattern, std::string content) {
  return std::make_unique<ReplaceString>(std::move(pattern), std::move(content));
}
NormalizerPtr make_prepend_normalizer(std::string prefix) {
  return std::make_unique<Prepend>(std::move(prefix));
}

NormalizerPtr make_byte_level_normalizer() {
  return per_character(
      [](std::string& out, char32_t, std::string_view bytes) { append_byte_level(out, bytes); });
}

NormalizerPtr make_bert_normalizer(BertNormalizerOptions options) {
  std::vector<NormalizerPtr> steps;
  if (options.clean_text) {
    steps.push_back(per_character([](std::string& out, char32_t c, std::string_view bytes) {
      if (c == 0 || c == 0xFFFD || has_class(c, CharClass::control)) return;
      if (is_white_space(c))
        out += ' ';
      else
        out += bytes;
    }));
  }
  if (options.handle_chinese_chars) {
    steps.push_back(per_character([](std::string& out, char32_t c, std::string_view bytes) {
      const bool chinese = is_chinese_char(c);
      if (chinese) out += ' ';
      out += bytes;
      if (chinese) out += ' ';
    }));
  }
  if (options.strip_accents) {
    steps.push_back(make_unicode_normalizer(NormalForm::nfd));
    steps.push_back(per_character([](std::string& out, char32_t c, std::string_view bytes) {
      if (!has_class(c, CharClass::nonspacing_mark)) out += bytes;
    }));
  }
  if (options.lowercase) steps.push_back(make_lowercase_normalizer());
  return make_sequence_normalizer(std::move(steps));
}

NormalizerPtr make_sequence_normalizer(std::vector<NormalizerPtr> steps) {
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace pagoda
