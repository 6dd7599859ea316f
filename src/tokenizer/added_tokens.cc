#include "tokenizer/added_tokens.h"

#include "base/utf8.h"
#include "tokenizer/unicode.h"

namespace pagoda {

void AddedTokens::add(AddedToken token) {
  if (const auto it = by_content_.find(token.content); it != by_content_.end()) {
    by_id_.erase(tokens_[it->second].id);
    by_id_[token.id] = it->second;
    tokens_[it->second] = std::move(token);
    return;
  }
  by_content_[token.content] = tokens_.size();
  by_id_[token.id] = tokens_.size();
  tokens_.push_back(std::move(token));
}

void AddedTokens::build() {
  for (const bool normalized : {false, true}) {
    std::vector<std::pair<std::string_view, std::int32_t>> entries;
    for (std::size_t i = 0; i < tokens_.size(); ++i) {
      const AddedToken& token = tokens_[i];
      if (token.normalized != normalized) continue;
      const std::string& content = normalized ? token.normalized_content : token.content;
      if (!content.empty()) entries.emplace_back(content, static_cast<std::int32_t>(i));
    }
    tries_[normalized] = entries.empty() ? ByteTrie() : ByteTrie(std::move(entries));
  }
}

const AddedToken* AddedTokens::find(std::string_view content) const {
  const auto it = by_content_.find(std::string(content));
  return it == by_content_.end() ? nullptr : &tokens_[it->second];
}

const AddedToken* AddedTokens::find(TokenId id) const {
  const auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : &tokens_[it->second];
}

bool AddedTokens::is_whitespace_only(std::string_view content) {
  for (std::size_t at = 0; at < content.size();) {
    const char32_t c = next_code_point(content, at);
    if (!is_white_space(c) && c != 0x2581) return false;
  }
  return true;
}

bool AddedTokens::adjust(std::string_view text, std::size_t consumed, Found& found) {
  const AddedToken& token = *found.token;
  if (token.single_word) {
    if (found.begin > 0) {
      std::size_t at = previous_character(text, found.begin);
      if (has_class(next_code_point(text, at), CharClass::word)) return false;
    }
    if (found.end < text.size()) {
      std::size_t at = found.end;
      if (has_class(next_code_point(text, at), CharClass::word)) return false;
    }
  }
  if (token.lstrip) {
    while (found.begin > consumed) {
      const std::size_t before = previous_character(text, found.begin);
      std::size_t at = before;
      if (!is_white_space(next_code_point(text, at))) break;
      found.begin = before;
    }
  }
  if (token.rstrip) {
    while (found.end < text.size()) {
      std::size_t at = found.end;
      if (!is_white_space(next_code_point(text, at))) break;
      found.end = at;
    }
  }
  return true;
}

}  // namespace pagoda
