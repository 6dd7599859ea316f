#include "tokenizer/vocabulary.h"

#include <algorithm>

namespace pagoda {

void Vocabulary::reserve(std::size_t num_tokens, std::size_t num_bytes) {
  arena_.reserve(num_bytes);
  by_id_.reserve(num_tokens);
  grow(std::bit_ceil(num_tokens * 2 + 16));
}

bool Vocabulary::insert(std::string_view token, TokenId id, bool replaces) {
  if (id < 0 || id > kMaxId || arena_.size() + token.size() >= UINT32_MAX) return false;
  if ((num_tokens_ + 1) * 2 > slots_.size()) grow(std::max<std::size_t>(64, slots_.size() * 2));
  const std::uint64_t hash = hash_bytes(token);
  Slot& slot = slots_[find_slot(token, hash)];
  if (slot.id < 0) {
    slot.tag = static_cast<std::uint32_t>(hash >> 32);
    slot.span = {static_cast<std::uint32_t>(arena_.size()), static_cast<std::uint32_t>(token.size())};
    arena_ += token;
    max_token_bytes_ = std::max(max_token_bytes_, token.size());
    ++num_tokens_;
  } else if (!replaces) {
    return true;
  } else if (Span& old = by_id_[static_cast<std::size_t>(slot.id)]; old.begin == slot.span.begin) {
    old = Span{};
  }
  slot.id = id;
  if (by_id_.size() <= static_cast<std::size_t>(id)) by_id_.resize(static_cast<std::size_t>(id) + 1);
  by_id_[static_cast<std::size_t>(id)] = slot.span;
  return true;
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  if (slots_.empty() || token.size() > max_token_bytes_) return std::nullopt;
  const Slot& slot = slots_[find_slot(token, hash_bytes(token))];
  if (slot.id < 0) return std::nullopt;
  return slot.id;
}

void Vocabulary::hide(TokenId id) {
  if (id < 0 || id > kMaxId) return;
  if (hidden_.size() <= static_cast<std::size_t>(id)) hidden_.resize(static_cast<std::size_t>(id) + 1);
  hidden_[static_cast<std::size_t>(id)] = true;
}

std::size_t Vocabulary::find_slot(std::string_view token, std::uint64_t hash) const {
  const std::size_t mask = slots_.size() - 1;
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.id < 0) return at;
    if (slot.tag == tag && std::string_view(arena_).substr(slot.span.begin, slot.span.length) == token)
      return at;
  }
}

void Vocabulary::grow(std::size_t capacity) {
  if (capacity <= slots_.size()) return;
  std::vector<Slot> old(capacity);
  old.swap(slots_);
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    const std::string_view token = std::string_view(arena_).substr(slot.span.begin, slot.span.length);
    slots_[find_slot(token, hash_bytes(token))] = slot;
  }
}

}  // namespace pagoda
