#include "text/vocabulary.h"

#include <algorithm>

namespace pagoda {

void Vocabulary::reserve(std::size_t num_tokens, std::size_t num_bytes) {
  arena_.reserve(num_bytes);
  entries_.reserve(num_tokens);
  by_id_.reserve(num_tokens);
  grow(std::bit_ceil(num_tokens * 2 + 16));
}

bool Vocabulary::add(std::string_view token, TokenId id) {
  if (id < 0 || id > kMaxId || arena_.size() + token.size() > UINT32_MAX) return false;
  if ((entries_.size() + 1) * 2 > slots_.size()) grow(std::max<std::size_t>(64, slots_.size() * 2));
  const std::uint64_t hash = hash_bytes(token);
  Slot& slot = slots_[find_slot(token, hash)];
  if (slot.entry < 0) {
    slot = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::int32_t>(entries_.size())};
    entries_.push_back(
        {static_cast<std::uint32_t>(arena_.size()), static_cast<std::uint32_t>(token.size()), id});
    arena_ += token;
    max_token_bytes_ = std::max(max_token_bytes_, token.size());
  } else {
    Entry& entry = entries_[static_cast<std::size_t>(slot.entry)];
    if (by_id_[static_cast<std::size_t>(entry.id)] == slot.entry)
      by_id_[static_cast<std::size_t>(entry.id)] = -1;
    entry.id = id;
  }
  if (by_id_.size() <= static_cast<std::size_t>(id)) by_id_.resize(static_cast<std::size_t>(id) + 1, -1);
  by_id_[static_cast<std::size_t>(id)] = slot.entry;
  return true;
}

std::optional<TokenId> Vocabulary::find(std::string_view token) const {
  if (slots_.empty() || token.size() > max_token_bytes_) return std::nullopt;
  const Slot& slot = slots_[find_slot(token, hash_bytes(token))];
  if (slot.entry < 0) return std::nullopt;
  return entries_[static_cast<std::size_t>(slot.entry)].id;
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
    if (slot.entry < 0) return at;
    if (slot.tag != tag) continue;
    const Entry& entry = entries_[static_cast<std::size_t>(slot.entry)];
    if (std::string_view(arena_).substr(entry.begin, entry.length) == token) return at;
  }
}

void Vocabulary::grow(std::size_t capacity) {
  if (capacity <= slots_.size()) return;
  slots_.assign(capacity, Slot{});
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view token = std::string_view(arena_).substr(entries_[i].begin, entries_[i].length);
    const std::uint64_t hash = hash_bytes(token);
    slots_[find_slot(token, hash)] = {static_cast<std::uint32_t>(hash >> 32), static_cast<std::int32_t>(i)};
  }
}

}  // namespace pagoda
