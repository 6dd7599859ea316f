#include "tokenizer/pre_tokenizer.h"

#include "base/utf8.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/unicode.h"

namespace pagoda {
namespace {

// Turns consecutive (part, is_match) into pieces.
class Cutter {
 public:
  Cutter(const Piece& input, SplitBehavior behavior, PieceSink& out)
      : input_(input), behavior_(behavior), out_(out) {}

  void part(std::size_t begin, std::size_t end, bool is_match) {
    switch (behavior_) {
      case SplitBehavior::removed:
        if (!is_match) emit(begin, end);
        break;
      case SplitBehavior::isolated:
        emit(begin, end);
        break;
      case SplitBehavior::contiguous:
        if (held_ && is_match == previous_match_) {
          held_end_ = end;
        } else {
          flush();
          hold(begin, end);
        }
        break;
      case SplitBehavior::merged_with_previous:
        if (is_match && !previous_match_ && held_) {
          held_end_ = end;
          flush();
        } else {
          flush();
          hold(begin, end);
        }
        break;
      case SplitBehavior::merged_with_next:
        if (!is_match && held_ && previous_match_) {
          held_end_ = end;
          flush();
        } else {
          flush();
          hold(begin, end);
        }
        break;
    }
    previous_match_ = is_match;
  }

  void flush() {
    if (held_) emit(held_begin_, held_end_);
    held_ = false;
  }

 private:
  void hold(std::size_t begin, std::size_t end) { held_ = true, held_begin_ = begin, held_end_ = end; }
  void emit(std::size_t begin, std::size_t end) {
    if (begin < end) out_.piece({input_.text.substr(begin, end - begin), input_.at_origin && begin == 0});
  }

  const Piece& input_;
  SplitBehavior behavior_;
  PieceSink& out_;
  bool previous_match_ = false, held_ = false;
  std::size_t held_begin_ = 0, held_end_ = 0;
};

class RegexSplit final : public PreTokenizer {
 public:
  RegexSplit(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  bool split(const Piece& input, PieceSink& out) const override {
    Cutter cutter(input, behavior_, out);
    const bool done =
        pattern_.for_each_part(input.text, [&](std::size_t begin, std::size_t end, bool is_match) {
          cutter.part(begin, end, is_match != invert_);
        });
    cutter.flush();
    return done;
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Each character of a class is a separate match.
template <class Test>
class CharacterSplit final : public PreTokenizer {
 public:
  CharacterSplit(Test test, SplitBehavior behavior) : test_(test), behavior_(behavior) {}
  bool split(const Piece& input, PieceSink& out) const override {
    Cutter cutter(input, behavior_, out);
    std::size_t gap = 0;
    for (std::size_t at = 0; at < input.text.size();) {
      const std::size_t begin = at;
      if (!test_(next_code_point(input.text, at))) continue;
      if (gap < begin) cutter.part(gap, begin, false);
      cutter.part(begin, at, true);
      gap = at;
    }
    if (gap < input.text.size()) cutter.part(gap, input.text.size(), false);
    cutter.flush();
    return true;
  }

 private:
  Test test_;
  SplitBehavior behavior_;
};

template <class Test>
PreTokenizerPtr character_split(Test test, SplitBehavior behavior) {
  return std::make_unique<CharacterSplit<Test>>(test, behavior);
}

// \w+|[^\w\s]+, the rest removed.
class Whitespace final : public PreTokenizer {
 public:
  bool split(const Piece& input, PieceSink& out) const override {
    const std::string_view text = input.text;
    enum Kind { space, word, other };
    const auto kind_of = [](char32_t c) {
      return has_class(c, CharClass::word) ? word : is_white_space(c) ? space : other;
    };
    std::size_t begin = 0;
    Kind kind = space;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t here = at;
      const Kind next = kind_of(next_code_point(text, at));
      if (next == kind) continue;
      if (kind != space) out.piece({text.substr(begin, here - begin), input.at_origin && begin == 0});
      begin = here, kind = next;
    }
    if (kind != space) out.piece({text.substr(begin), input.at_origin && begin == 0});
    return true;
  }
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}
  bool split(const Piece& input, PieceSink& out) const override {
    std::string text;
    text.reserve(input.text.size() + input.text.size() / 4 + replacement_.size());
    const bool starts = input.text.starts_with(' ') || input.text.starts_with(replacement_);
    const bool prepend =
        scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && input.at_origin);
    if (prepend && !starts) text += replacement_;
    for (std::size_t at = 0; at < input.text.size();) {
      const std::size_t space = std::min(input.text.find(' ', at), input.text.size());
      text += input.text.substr(at, space - at);
      if (space < input.text.size()) text += replacement_;
      at = space + 1;
    }
    const Piece whole{text, input.at_origin};
    if (!split_) {
      if (!text.empty()) out.piece(whole);
      return true;
    }
    Cutter cutter(whole, SplitBehavior::merged_with_next, out);
    std::size_t gap = 0;
    for (std::size_t at = text.find(replacement_); at != std::string::npos;
         at = text.find(replacement_, gap)) {
      if (gap < at) cutter.part(gap, at, false);
      gap = at + replacement_.size();
      cutter.part(at, gap, true);
    }
    if (gap < text.size()) cutter.part(gap, text.size(), false);
    cutter.flush();
    return true;
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::size_t length) : length_(length) {}
  bool split(const Piece& input, PieceSink& out) const override {
    for (std::size_t at = 0; at < input.text.size();) {
      const std::size_t begin = at;
      for (std::size_t i = 0; i < length_ && at < input.text.size(); ++i) at += utf8_length(input.text[at]);
      out.piece({input.text.substr(begin, at - begin), input.at_origin && begin == 0});
    }
    return true;
  }

 private:
  std::size_t length_;
};

class MapToByteLevel final : public PreTokenizer {
 public:
  bool split(const Piece& input, PieceSink& out) const override {
    std::string text;
    text.reserve(input.text.size() * 2);
    append_byte_level(text, input.text);
    if (!text.empty()) out.piece({text, input.at_origin});
    return true;
  }
};

class AddPrefixSpace final : public PreTokenizer {
 public:
  bool split(const Piece& input, PieceSink& out) const override {
    if (input.text.starts_with(' ')) {
      out.piece(input);
      return true;
    }
    std::string text;
    text.reserve(input.text.size() + 1);
    text += ' ';
    text += input.text;
    out.piece({text, input.at_origin});
    return true;
  }
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<PreTokenizerPtr> steps) : steps_(std::move(steps)) {}
  bool split(const Piece& input, PieceSink& out) const override { return run(0, input, out); }

 private:
  class Next final : public PieceSink {
   public:
    Next(const PreTokenizerSequence& sequence, std::size_t step, PieceSink& out)
        : sequence_(sequence), step_(step), out_(out) {}
    void piece(const Piece& piece) override { ok &= sequence_.run(step_, piece, out_); }
    bool ok = true;

   private:
    const PreTokenizerSequence& sequence_;
    std::size_t step_;
    PieceSink& out_;
  };
  bool run(std::size_t step, const Piece& input, PieceSink& out) const {
    if (step == steps_.size()) {
      if (!input.text.empty()) out.piece(input);
      return true;
    }
    if (step + 1 == steps_.size()) return steps_[step]->split(input, out);
    Next next(*this, step + 1, out);
    return steps_[step]->split(input, next) && next.ok;
  }
  std::vector<PreTokenizerPtr> steps_;
};

}  // namespace

PreTokenizerPtr make_split(Regex pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<RegexSplit>(std::move(pattern), behavior, invert);
}

PreTokenizerPtr make_byte_level_pre_tokenizer(bool add_prefix_space, bool use_regex, bool map_bytes) {
  std::vector<PreTokenizerPtr> steps;
  if (add_prefix_space) steps.push_back(std::make_unique<AddPrefixSpace>());
  if (use_regex) steps.push_back(make_known_split(kGpt2Pattern));
  if (map_bytes) steps.push_back(std::make_unique<MapToByteLevel>());
  if (steps.size() == 1) return std::move(steps[0]);
  return make_sequence_pre_tokenizer(std::move(steps));
}

PreTokenizerPtr make_metaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}

PreTokenizerPtr make_digits(bool individual) {
  return character_split([](char32_t c) { return has_class(c, CharClass::numeric); },
                         individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
}

PreTokenizerPtr make_punctuation(SplitBehavior behavior) {
  return character_split([](char32_t c) { return has_class(c, CharClass::punctuation); }, behavior);
}

PreTokenizerPtr make_whitespace() { return std::make_unique<Whitespace>(); }

PreTokenizerPtr make_whitespace_split() {
  return character_split([](char32_t c) { return is_white_space(c); }, SplitBehavior::removed);
}

PreTokenizerPtr make_bert_pre_tokenizer() {
  std::vector<PreTokenizerPtr> steps;
  steps.push_back(make_whitespace_split());
  steps.push_back(make_punctuation(SplitBehavior::isolated));
  return make_sequence_pre_tokenizer(std::move(steps));
}

PreTokenizerPtr make_char_delimiter_split(std::string delimiter) {
  std::size_t at = 0;
  const char32_t wanted = next_code_point(delimiter, at);
  return character_split([wanted](char32_t c) { return c == wanted; }, SplitBehavior::removed);
}

PreTokenizerPtr make_fixed_length(std::size_t length) { return std::make_unique<FixedLength>(length); }

PreTokenizerPtr make_sequence_pre_tokenizer(std::vector<PreTokenizerPtr> steps) {
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

}  // namespace pagoda
