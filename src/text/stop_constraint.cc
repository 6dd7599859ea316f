#include "text/stop_constraint.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace pagoda {
namespace {

struct Stops {
  const Tokenizer& tokenizer;
  std::vector<std::string> strings;
  std::size_t longest = 0;
};

class StopConstraint final : public TokenConstraint {
 public:
  explicit StopConstraint(std::shared_ptr<const Stops> stops) : stops_(std::move(stops)) {}

  bool fill_mask(std::span<MaskWord> mask) override {
    std::ranges::fill(mask, ~MaskWord{0});
    return true;
  }
  bool advance(TokenId token) override {
    const Tokenizer& tokenizer = stops_->tokenizer;
    const std::size_t before = text_.size();
    if (token >= 0 && token < tokenizer.vocab_size() && !tokenizer.is_special(token))
      text_ += tokenizer.token_bytes(token);
    const std::size_t from = before - std::min(before, stops_->longest - 1);
    const bool stops = std::ranges::any_of(stops_->strings, [&](const std::string& stop) {
      return text_.find(stop, from) != std::string::npos;
    });
    steps_.push_back({.text_bytes = before, .stopped = stopped_});
    stopped_ = stopped_ || stops;
    return true;
  }
  void rollback(std::int32_t count) override {
    CHECK(std::cmp_less_equal(count, steps_.size()));
    for (; count > 0; --count, steps_.pop_back()) {
      text_.resize(steps_.back().text_bytes);
      stopped_ = steps_.back().stopped;
    }
  }
  std::unique_ptr<TokenConstraint> fork() const override { return std::make_unique<StopConstraint>(*this); }
  bool is_terminated() const override { return stopped_; }

 private:
  struct Step {
    std::size_t text_bytes;
    bool stopped;
  };
  std::shared_ptr<const Stops> stops_;
  std::string text_;
  std::vector<Step> steps_;  // state before each token
  bool stopped_ = false;
};

class Both final : public TokenConstraint {
 public:
  Both(std::unique_ptr<TokenConstraint> first, std::unique_ptr<TokenConstraint> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  bool fill_mask(std::span<MaskWord> mask) override {
    other_.resize(mask.size());
    if (!first_->fill_mask(mask) || !second_->fill_mask(other_)) return false;
    for (std::size_t i = 0; i < mask.size(); ++i) mask[i] &= other_[i];
    return std::ranges::any_of(mask, [](MaskWord word) { return word != 0; });
  }
  bool advance(TokenId token) override {
    if (!first_->advance(token)) return false;
    if (second_->advance(token)) return true;
    first_->rollback(1);
    return false;
  }
  void rollback(std::int32_t count) override {
    first_->rollback(count);
    second_->rollback(count);
  }
  std::unique_ptr<TokenConstraint> fork() const override {
    return std::make_unique<Both>(first_->fork(), second_->fork());
  }
  bool is_terminated() const override { return first_->is_terminated() || second_->is_terminated(); }

 private:
  std::unique_ptr<TokenConstraint> first_, second_;
  std::vector<MaskWord> other_;
};

// A factory of the constraints that `make` creates.
template <class Make>
class Factory final : public TokenConstraintFactory {
 public:
  explicit Factory(Make make) : make_(std::move(make)) {}
  std::unique_ptr<TokenConstraint> make() const override { return make_(); }

 private:
  Make make_;
};
template <class Make>
std::shared_ptr<const TokenConstraintFactory> factory_of(Make make) {
  return std::make_shared<const Factory<Make>>(std::move(make));
}

}  // namespace

std::shared_ptr<const TokenConstraintFactory> make_stop_constraint(const Tokenizer& tokenizer,
                                                                   std::vector<std::string> stops) {
  std::erase(stops, std::string());
  if (stops.empty()) return nullptr;
  std::size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  auto shared = std::make_shared<const Stops>(
      Stops{.tokenizer = tokenizer, .strings = std::move(stops), .longest = longest});
  return factory_of([shared] { return std::make_unique<StopConstraint>(shared); });
}

std::shared_ptr<const TokenConstraintFactory> both_constraints(
    std::shared_ptr<const TokenConstraintFactory> first,
    std::shared_ptr<const TokenConstraintFactory> second) {
  if (first == nullptr) return second;
  if (second == nullptr) return first;
  return factory_of([first, second] { return std::make_unique<Both>(first->make(), second->make()); });
}

}  // namespace pagoda
