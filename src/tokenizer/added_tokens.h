#pragma once
// AddedTokens: tokens that are matched in the text before the model sees it: control tokens such as
// <|im_end|>, and any other tokens added by a tokenizer's author.
// Source: Hugging Face `tokenizers`, tokenizer/added_vocabulary.rs.
// Threads: any number of readers once built.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/tokenizer.h"

namespace pagoda {

struct AddedToken {
  TokenId id = -1;
  std::string content = {};
  std::string normalized_content = {};  // text to match if `normalized`; otherwise `content` is matched
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
};

class AddedTokens {
 public:
  // A token replaces an earlier one with the same content or id.
  void add(AddedToken token);
  void build();  // call after the last add()

  // Splits text into parts: on_part(begin, end, token), where token is null for ordinary text. Matches either
  // the tokens for the original text (normalized false) or those for the normalized text. `is_plain(begin,
  // end)` returns true if a match lies in text where only ordinary tokens count.
  template <class IsPlain, class OnPart>
  void for_each_part(std::string_view text, bool normalized, const IsPlain& is_plain,
                     const OnPart& on_part) const;

  bool empty(bool normalized) const { return tries_[normalized].empty(); }
  const AddedToken* find(std::string_view content) const;
  const AddedToken* find(TokenId id) const;
  const std::vector<AddedToken>& tokens() const { return tokens_; }

 private:
  struct Found {
    std::size_t begin, end;
    const AddedToken* token;
  };
  static bool is_whitespace_only(std::string_view content);
  // Widens for lstrip and rstrip; false if single_word forbids the match.
  static bool adjust(std::string_view text, std::size_t consumed, Found& found);

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, std::size_t> by_content_;
  std::unordered_map<TokenId, std::size_t> by_id_;
  ByteTrie tries_[2];  // [normalized]; values are indices of tokens_
};

template <class IsPlain, class OnPart>
void AddedTokens::for_each_part(std::string_view text, bool normalized, const IsPlain& is_plain,
                                const OnPart& on_part) const {
  const ByteTrie& trie = tries_[normalized];
  std::size_t consumed = 0;  // the end of the last part
  for (std::size_t at = 0; at < text.size() && !trie.empty();) {
    if (!trie.can_start_with(text[at])) {
      ++at;
      continue;
    }
    // The longest token here; in plain text, the longest one that counts there.
    Found found{at, 0, nullptr};
    trie.for_each_prefix(text.substr(at), [&](std::size_t length, std::int32_t index) {
      const AddedToken& token = tokens_[static_cast<std::size_t>(index)];
      if (is_plain(at, at + length) && (token.special || !is_whitespace_only(token.content))) return;
      found.end = at + length;
      found.token = &token;
    });
    if (!found.token) {
      ++at;
      continue;
    }
    at = found.end;
    if (!adjust(text, consumed, found)) continue;
    if (consumed < found.begin) on_part(consumed, found.begin, nullptr);
    on_part(found.begin, found.end, found.token);
    consumed = found.end;
  }
  if (consumed < text.size()) on_part(consumed, text.size(), nullptr);
}

}  // namespace pagoda
