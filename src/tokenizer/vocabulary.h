#pragma once
// Vocabulary: token strings <-> ids, as spelled in the files, in one arena. Ids may have gaps; several
// strings may share an id (the last one added is the id's spelling).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "request/ids.h"
#include "tokenizer/flat_map.h"

namespace pagoda {

class Vocabulary {
 public:
  static constexpr TokenId kMaxId = (1 << 22) - 1;  // far above any model; limits the damage of bad files

  void reserve(std::size_t num_tokens, std::size_t num_bytes);

  // False if `id` is out of bounds or the arena would exceed 4 GiB. A repeated string keeps the last id.
  [[nodiscard]] bool add(std::string_view token, TokenId id) { return insert(token, id, true); }
  // The same, but a repeated string keeps its first id.
  [[nodiscard]] bool add_if_new(std::string_view token, TokenId id) { return insert(token, id, false); }

  std::optional<TokenId> find(std::string_view token) const;
  // Control tokens are hidden: a model never finds them in a text.
  void hide(TokenId id);
  bool is_hidden(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < hidden_.size() && hidden_[static_cast<std::size_t>(id)];
  }
  std::optional<TokenId> find_in_text(std::string_view token) const {
    const auto id = find(token);
    return id && is_hidden(*id) ? std::nullopt : id;
  }
  // Empty for an id without a token; use contains() to distinguish it from an empty token.
  std::string_view token(TokenId id) const {
    if (!contains(id)) return {};
    const Span& span = by_id_[static_cast<std::size_t>(id)];
    return std::string_view(arena_).substr(span.begin, span.length);
  }
  bool contains(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < by_id_.size() &&
           by_id_[static_cast<std::size_t>(id)].length != kNoToken;
  }
  std::size_t num_tokens() const { return num_tokens_; }                  // distinct strings
  TokenId end_id() const { return static_cast<TokenId>(by_id_.size()); }  // largest id + 1
  std::size_t max_token_bytes() const { return max_token_bytes_; }

 private:
  static constexpr std::uint32_t kNoToken = UINT32_MAX;
  struct Span {
    std::uint32_t begin = 0, length = kNoToken;
  };
  struct Slot {
    std::uint32_t tag = 0;  // upper half of the hash
    TokenId id = -1;        // -1: empty
    Span span;
  };
  bool insert(std::string_view token, TokenId id, bool replaces);
  void grow(std::size_t capacity);
  std::size_t find_slot(std::string_view token, std::uint64_t hash) const;

  std::string arena_;
  std::vector<Span> by_id_;
  std::vector<Slot> slots_;
  std::size_t num_tokens_ = 0;
  std::vector<bool> hidden_;  // by id; ids beyond its end are not hidden
  std::size_t max_token_bytes_ = 0;
};

}  // namespace pagoda
