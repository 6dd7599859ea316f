#pragma once
// For tests: two constraints on the fake model's tokens, and the tokens they allow after the start of an
// answer.
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "request/request.h"

namespace pagoda::fake {

// Allows one of several answers. If one answer is a prefix of another, token 0 ends it. A choice that ends
// with -1 is a trap: no token may follow the tokens before the -1.
class Choices final : public TokenConstraint {
 public:
  using List = std::vector<std::vector<TokenId>>;
  explicit Choices(std::shared_ptr<const List> list) : list_(std::move(list)) {}

  bool fill_mask(std::span<MaskWord> mask) override {
    std::ranges::fill(mask, 0);
    if (is_terminated()) return true;
    bool any = false;
    for (const auto& choice : *list_) {
      if (choice.size() < said_.size() || !std::equal(said_.begin(), said_.end(), choice.begin())) continue;
      const TokenId next = choice.size() == said_.size() ? 0 : choice[said_.size()];
      if (next < 0) continue;
      allow(mask, next);
      any = true;
    }
    return any;
  }
  bool advance(TokenId token) override {
    std::vector<MaskWord> mask(64);
    if (token < 0 || !fill_mask(mask) || !allows(mask, token)) return false;
    said_.push_back(token);
    return true;
  }
  void rollback(std::int32_t count) override {
    CHECK(count >= 0 && static_cast<std::size_t>(count) <= said_.size());
    said_.resize(said_.size() - static_cast<std::size_t>(count));
  }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<Choices>(*this); }
  bool is_terminated() const override {
    if (!said_.empty() && said_.back() == 0) return true;
    const bool whole = std::ranges::find(*list_, said_) != list_->end();
    return whole && std::ranges::none_of(*list_, [&](const auto& choice) {
             return choice.size() > said_.size() && std::equal(said_.begin(), said_.end(), choice.begin());
           });
  }

 private:
  std::shared_ptr<const List> list_;
  std::vector<TokenId> said_;
};

// Allows a different third of the tokens after each prefix; may end anywhere, and sometimes reaches a dead
// end.
class Scattered final : public TokenConstraint {
 public:
  Scattered(std::uint64_t seed, bool dead_ends) : said_{seed}, dead_ends_(dead_ends) {}

  bool fill_mask(std::span<MaskWord> mask) override {
    std::ranges::fill(mask, 0);
    if (is_terminated()) return true;
    if (dead_ends_ && said_.size() > 1 && said_.back() % 29 == 0) return false;
    for (TokenId token = 0; token < static_cast<TokenId>(mask.size()) * 32; ++token)
      if (may_come(token)) allow(mask, token);
    return true;
  }
  bool advance(TokenId token) override {
    if (is_terminated() || (dead_ends_ && said_.size() > 1 && said_.back() % 29 == 0) || !may_come(token))
      return false;
    said_.push_back(mix64(said_.back() + static_cast<std::uint64_t>(token)));
    return true;
  }
  void rollback(std::int32_t count) override {
    CHECK(count >= 0 && static_cast<std::size_t>(count) < said_.size());
    said_.resize(said_.size() - static_cast<std::size_t>(count));
  }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<Scattered>(*this); }
  bool is_terminated() const override { return said_.size() > 1 && said_.back() % 23 == 0; }

 private:
  bool may_come(TokenId token) const {
    return token >= 0 && mix64(said_.back() * 7 + static_cast<std::uint64_t>(token)) % 3 == 0;
  }
  std::vector<std::uint64_t> said_;
  bool dead_ends_;
};

template <class Make>
class Factory final : public TokenConstraintFactory {
 public:
  explicit Factory(Make make) : make_(std::move(make)) {}
  std::unique_ptr<TokenConstraint> make() const override { return make_(); }

 private:
  Make make_;
};

inline std::shared_ptr<const TokenConstraintFactory> one_of(Choices::List choices) {
  auto list = std::make_shared<const Choices::List>(std::move(choices));
  auto make = [list] { return std::make_unique<Choices>(list); };
  return std::make_shared<const Factory<decltype(make)>>(make);
}

inline std::shared_ptr<const TokenConstraintFactory> scattered(std::uint64_t seed, bool dead_ends) {
  auto make = [=] { return std::make_unique<Scattered>(seed, dead_ends); };
  return std::make_shared<const Factory<decltype(make)>>(make);
}

// The tokens that the request's constraint allows after `output`, straight from the definition.
struct Allowed {
  std::vector<MaskWord> mask;  // empty: all tokens
  bool dead_end = false, terminated = false;
};

inline Allowed allowed_after(const Request& request, std::span<const TokenId> output, TokenId vocabulary) {
  Allowed out;
  if (request.constraint == nullptr) return out;
  const auto constraint = request.constraint->make();
  for (const TokenId token : output) CHECK(constraint->advance(token));
  out.terminated = constraint->is_terminated();
  out.mask.resize(mask_words(vocabulary));
  out.dead_end = !out.terminated && !constraint->fill_mask(out.mask);
  return out;
}

}  // namespace pagoda::fake
