// Mixture: each token goes through the experts that a router chooses for it, and their sum by its weights is
// what it gets; some mixtures have one more expert for all tokens. The router's product and the choice are in
// float32 whatever the weights. On several ranks each has some experts whole and all make the same choice;
// what the experts make is gathered, or each rank's sum of its own summed (ExchangeKind).
// Source: arXiv 1701.06538; shared experts: arXiv 2401.06066 (DeepSeekMoE).
#include "kernels/mixture.h"

#include <algorithm>
#include <cmath>

#include "models/expert_weights.h"
#include "models/layer_part.h"

namespace pagoda {
namespace {

class Mixture final : public FeedForward {
 public:
  Mixture(const MixtureConfig& config, const LayerPlace& place, WeightLoader& loader)
      : config_(config),
        hidden_(place.hidden_size),
        own_(place.shard->experts.own),
        ranks_(place.shard->experts.ranks) {
    const std::int32_t experts = config.routing.num_experts;
    const ExpertNames& names = choose_expert_names(place.prefix, loader);
    router_ = loader.exact_linear(place.prefix + names.router, experts, hidden_);
    if (config.router_norm) {
      router_norm_ = loader.reader().vector(place.prefix + names.router_norm, hidden_);
      for (float& weight : router_norm_) weight /= std::sqrt(static_cast<float>(hidden_));
    }
    if (config.expert_scales)
      expert_scales_ = loader.reader().vector(place.prefix + names.expert_scales, experts);
    if (!names.correction.empty())
      correction_ = loader.reader().optional_vector(place.prefix + names.correction, experts);
    if (!names.sum_bias.empty())
      sum_bias_ = loader.reader().optional_vector(place.prefix + names.sum_bias, hidden_);
    experts_ = load_experts(config, names, place.prefix, hidden_, own_, loader);
    if (config.shared_intermediate_size == 0) return;
    DenseFeedForwardConfig shared = config.expert;
    shared.intermediate_size = config.shared_intermediate_size;
    shared_ =
        make_dense(shared, {names.shared_gate, names.shared_up, names.shared_down, names.shared_gate_up},
                   place.shard->inner, place, loader);
    if (config.shared_gate)
      shared_router_ = loader.exact_linear(place.prefix + names.shared_router, 1, hidden_);
  }

  // One row's share of all that lies between.
  std::int64_t inner_width() const override {
    const std::int64_t chosen = config_.routing.per_token;
    return padded(config_.routing.num_experts) + padded(chosen) + chosen * padded(hidden_) + shared_width() +
           (weighs_shared() ? 16 + padded(hidden_) : 0);
  }
  Products entering() override {
    Products products = {&router_};
    if (shared_ != nullptr)
      for (PackedLinear* each : shared_->entering()) products.push_back(each);
    return products;
  }
  Products leaving() override { return shared_ != nullptr ? shared_->leaving() : Products{}; }

  void look(const Workspace& room, const LinearInput& input, std::int64_t count) override {
    if (!config_.routes_early) return;
    early_logits_.resize(static_cast<std::size_t>(count * config_.routing.num_experts));
    linear(*room.context, router_, input, count, early_logits_.data());
  }
  Status forward(const Workspace& room, const LinearInput& input, std::int64_t count, float* y) override;

 private:
  bool weighs_shared() const {
    return shared_ != nullptr && (config_.shared_gate || config_.shared_scale != 1);
  }
  std::int64_t shared_width() const { return shared_ != nullptr ? padded(shared_->inner_width()) : 0; }
  void group_rows(std::int64_t count, const float* weights);
  RowGroups own_groups();
  Status add_experts(const Workspace& room, float* outs, std::int64_t count, const float* weights, float* y);
  Status add_shared(const Workspace& room, const LinearInput& input, std::int64_t count, float* between,
                    float* y);

  MixtureConfig config_;
  std::int64_t hidden_;
  Range own_;
  std::vector<Range> ranks_;  // experts of each rank
  PackedLinear router_, shared_router_;
  std::vector<float> correction_, router_norm_, expert_scales_, sum_bias_;
  ExpertWeights experts_;  // this rank's
  std::unique_ptr<FeedForward> shared_;

  // One chunk and all experts. chosen, places: [row, choice]; the rest as RowGroups says.
  std::vector<std::int32_t> chosen_, places_, starts_, rows_;
  std::vector<float> factors_;
  std::vector<std::int32_t> own_starts_;
  std::vector<std::size_t> sizes_;  // floats that each rank's experts make
  std::vector<float> partial_;      // [row, hidden]: this rank's sums
  std::vector<float> early_logits_;
};

// Rows by the expert that they chose; an expert's in ascending order. All ranks come to the same places.
void Mixture::group_rows(std::int64_t count, const float* weights) {
  const std::int64_t per_token = config_.routing.per_token;
  starts_.assign(static_cast<std::size_t>(config_.routing.num_experts) + 1, 0);
  for (const std::int32_t expert : chosen_) ++starts_[static_cast<std::size_t>(expert) + 1];
  for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  rows_.resize(chosen_.size());
  factors_.resize(config_.weigh_input ? rows_.size() : 0);
  places_.resize(chosen_.size());
  for (std::int64_t i = 0; i < count * per_token; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const std::int32_t place = starts_[static_cast<std::size_t>(chosen_[at])]++;
    places_[at] = place;
    rows_[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(i / per_token);
    if (config_.weigh_input) factors_[static_cast<std::size_t>(place)] = weights[i];
  }
  // Each begin has become its end.
  std::copy_backward(starts_.begin(), starts_.end() - 1, starts_.end());
  starts_.front() = 0;
}

// Those of this rank's experts, whose first place is 0.
RowGroups Mixture::own_groups() {
  const auto begin = starts_.begin() + own_.first;
  own_starts_.assign(begin, begin + own_.count + 1);
  const auto first = static_cast<std::size_t>(own_starts_.front());
  for (std::int32_t& start : own_starts_) start -= static_cast<std::int32_t>(first);
  const auto size = static_cast<std::size_t>(own_starts_.back());
  return {.starts = own_starts_,
          .rows = std::span(rows_).subspan(first, size),
          .factors = factors_.empty() ? std::span<const float>() : std::span(factors_).subspan(first, size)};
}

Status Mixture::forward(const Workspace& room, const LinearInput& input, std::int64_t count, float* y) {
  const KernelContext& context = *room.context;
  const std::int64_t per_token = config_.routing.per_token;
  float* const logits = config_.routes_early ? early_logits_.data() : room.inner;
  float* const weights = room.inner + room.chunk_rows * padded(config_.routing.num_experts);
  float* const outs = weights + room.chunk_rows * padded(per_token);
  float* const rest = outs + room.chunk_rows * per_token * padded(hidden_);

  LinearInput routed = input;
  if (config_.router_norm) {
    CHECK(input.op == LinearInput::Op::rms_norm);  // the same x
    routed.weight = router_norm_.data();
  }
  if (!config_.routes_early) linear(context, router_, routed, count, logits);
  chosen_.resize(static_cast<std::size_t>(count * per_token));
  route(context, config_.routing, logits, count, correction_, chosen_.data(), weights);
  for (std::size_t i = 0; i < chosen_.size() && !expert_scales_.empty(); ++i)
    weights[i] *= expert_scales_[static_cast<std::size_t>(chosen_[i])];
  group_rows(count, weights);
  grouped_pair(context, experts_.in, config_.expert.activation, experts_.out, input, count, own_groups(),
               outs + starts_[static_cast<std::size_t>(own_.first)] * hidden_);
  // Nothing is added to y, from which the input comes, before all have read it.
  if (shared_ != nullptr) PAGODA_RETURN_IF_ERROR(add_shared(room, input, count, rest, y));
  PAGODA_RETURN_IF_ERROR(add_experts(room, outs, count, config_.weigh_input ? nullptr : weights, y));
  for (std::int64_t i = 0; i < count * static_cast<std::int64_t>(sum_bias_.size()); ++i)
    y[i] += sum_bias_[static_cast<std::size_t>(i % hidden_)];
  return ok_status();
}

// A row's experts by ascending id, those of all ranks or of this one, whose sums are then summed.
Status Mixture::add_experts(const Workspace& room, float* outs, std::int64_t count, const float* weights,
                            float* y) {
  const std::int64_t per_token = config_.routing.per_token;
  const auto start = [&](std::int64_t expert) { return starts_[static_cast<std::size_t>(expert)]; };
  if (room.ranks->split() && !room.ranks->gathers()) {
    for (std::size_t i = 0; i < places_.size(); ++i)
      if (chosen_[i] < own_.first || chosen_[i] >= own_.end()) places_[i] = -1;
    partial_.assign(static_cast<std::size_t>(count * hidden_), 0.0f);
    add_weighted(*room.context, outs, hidden_, count, per_token, places_.data(), weights, partial_.data());
    PAGODA_RETURN_IF_ERROR(room.ranks->sum(partial_));
    for (std::size_t i = 0; i < partial_.size(); ++i) y[i] += partial_[i];
    return ok_status();
  }
  if (room.ranks->split()) {
    sizes_.clear();
    for (const Range& experts : ranks_)
      sizes_.push_back(static_cast<std::size_t>((start(experts.end()) - start(experts.first)) * hidden_));
    PAGODA_RETURN_IF_ERROR(room.ranks->gather(sizes_, outs));
  }
  add_weighted(*room.context, outs, hidden_, count, per_token, places_.data(), weights, y);
  return ok_status();
}

// y += the shared expert, or of each row the share of it that the row takes, times its scale.
Status Mixture::add_shared(const Workspace& room, const LinearInput& input, std::int64_t count,
                           float* between, float* y) {
  Workspace own = room;
  own.inner = between;
  if (!weighs_shared()) return shared_->forward(own, input, count, y);
  float* const share = between + room.chunk_rows * shared_width();
  float* const out = share + room.chunk_rows * 16;
  if (config_.shared_gate) linear(*room.context, shared_router_, input, count, share);
  std::fill_n(out, count * hidden_, 0.0f);
  PAGODA_RETURN_IF_ERROR(shared_->forward(own, input, count, out));
  std::vector<std::int32_t> places;
  for (std::int64_t row = 0; row < count; ++row) {
    share[row] = config_.shared_scale * (config_.shared_gate ? 1.0f / (1.0f + std::exp(-share[row])) : 1.0f);
    places.push_back(static_cast<std::int32_t>(row));
  }
  add_weighted(*room.context, out, hidden_, count, 1, places.data(), share, y);
  return ok_status();
}

}  // namespace

std::unique_ptr<FeedForward> make_part(const MixtureConfig& config, const LayerPlace& place,
                                       const DecoderConfig&, WeightLoader& loader) {
  return std::make_unique<Mixture>(config, place, loader);
}

}  // namespace pagoda
