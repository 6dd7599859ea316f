// Mixture: a router chooses experts for each token, whose weighted sum is the result; some mixtures add an
// expert for all tokens. The router's product and the choice are in float32 whatever the weights. With
// several ranks, all make the same choice. On the CPU each rank has whole experts; their results are
// gathered, or each rank's partial sums are added (ExchangeKind). On devices each rank has some rows of every
// expert's matrices, and features and sums are gathered (MixtureCut). Source: arXiv 1701.06538; shared
// experts: arXiv 2401.06066 (DeepSeekMoE).
#include "kernels/mixture.h"

#include <cmath>

#include "kernels/rows.h"
#include "models/decoder/layer_part.h"
#include "models/weights/expert_weights.h"

namespace pagoda {
namespace {

class Mixture final : public FeedForward {
 public:
  Mixture(const MixtureConfig& config, const LayerPlace& place)
      : config_(config), hidden_(place.hidden_size), own_(place.shard.experts.own) {
    if (!place.shard.of_expert.ranks.empty()) cut_features(place.shard);
    WeightLoader& loader = place.loader;
    for (const Range& experts : place.shard.experts.ranks) rank_ends_.push_back(experts.end());
    const std::int32_t experts = config.routing.num_experts;
    const ExpertNames& names = choose_expert_names(place.prefix, loader);
    router_ = loader.exact_linear(place.prefix + names.router, experts, hidden_);
    if (config.router_norm) {
      std::vector<float> norm = loader.reader().vector(place.prefix + names.router_norm, hidden_);
      for (float& weight : norm) weight /= std::sqrt(static_cast<float>(hidden_));
      router_norm_ = loader.place(std::move(norm));
    }
    if (config.expert_scales)
      expert_scales_ = loader.place(loader.reader().vector(place.prefix + names.expert_scales, experts));
    if (!names.correction.empty())
      correction_ = loader.place(loader.reader().optional_vector(place.prefix + names.correction, experts));
    if (!names.sum_bias.empty())
      sum_bias_ = loader.place(loader.reader().optional_vector(place.prefix + names.sum_bias, hidden_));
    const OwnExperts own = {.experts = own_,
                            .features = place.shard.of_expert.own,
                            .hidden = cuts_features() ? place.shard.hidden : Range{0, hidden_}};
    experts_ = load_experts(config, names, place.prefix, hidden_, own, loader);
    if (config.shared_intermediate_size == 0) return;
    DenseFeedForwardConfig shared = config.expert;
    shared.intermediate_size = config.shared_intermediate_size;
    shared_ =
        make_dense(shared, {names.shared_gate, names.shared_up, names.shared_down, names.shared_gate_up},
                   place.shard.inner, place);
    if (config.shared_gate)
      shared_router_ = loader.exact_linear(place.prefix + names.shared_router, 1, hidden_);
  }

  // Scratch per row for everything between the input and the result.
  std::int64_t inner_width() const override {
    const std::int64_t experts = padded(config_.routing.num_experts) + padded(mixture_scratch(arguments()));
    if (shared_ == nullptr) return experts;
    return experts + shared_width() + (weighs_shared() ? padded(1) + padded(hidden_) : 0);
  }
  Products input_products() override {
    Products products = {&router_};
    if (shared_ != nullptr)
      for (PackedLinear* each : shared_->input_products()) products.push_back(each);
    return products;
  }
  Products output_products() override { return shared_ != nullptr ? shared_->output_products() : Products{}; }

  std::int64_t seen_width() const override { return config_.routes_early ? config_.routing.num_experts : 0; }
  void look(const Workspace& workspace, const LinearInput& input, std::int64_t count) override {
    if (config_.routes_early) linear(*workspace.context, router_, input, count, logits(workspace));
  }
  Status forward(const Workspace& workspace, const LinearInput& input, std::int64_t count, bool accumulate,
                 const Buffer& y) override;

 private:
  bool cuts_features() const { return !hidden_ends_.empty(); }
  void cut_features(const LayerShard& shard) {
    for (const Range& features : shard.of_expert.ranks) feature_ends_.push_back(features.end());
    for (const Range& rows : shard.hidden_ranks) hidden_ends_.push_back(rows.end());
  }
  Buffer logits(const Workspace& workspace) const {
    return (config_.routes_early ? workspace.seen : workspace.inner).with_stride(config_.routing.num_experts);
  }
  bool weighs_shared() const {
    return shared_ != nullptr && (config_.shared_gate || config_.shared_scale != 1);
  }
  std::int64_t shared_width() const { return shared_ != nullptr ? padded(shared_->inner_width()) : 0; }
  MixtureArgs arguments() const {
    return {.routing = config_.routing,
            .correction = correction_.all(),
            .expert_scales = expert_scales_.all(),
            .weigh_input = config_.weigh_input,
            .first = experts_.in,
            .second = experts_.out,
            .first_expert = own_.first,
            .activation = config_.expert.activation,
            .rank_ends = rank_ends_,
            .feature_ends = feature_ends_,
            .hidden_ends = hidden_ends_};
  }
  Status add_shared(const Workspace& workspace, const LinearInput& input, std::int64_t count,
                    const Buffer& between, bool accumulate, const Buffer& y);

  MixtureConfig config_;
  std::int64_t hidden_;
  Range own_;
  std::vector<std::int64_t> rank_ends_;                   // end of each rank's experts
  std::vector<std::int64_t> feature_ends_, hidden_ends_;  // likewise for features, rows; empty: whole experts
  PackedLinear router_, shared_router_;
  PlacedVector correction_, router_norm_, expert_scales_, sum_bias_;
  ExpertWeights experts_;  // this rank's
  std::unique_ptr<FeedForward> shared_;
};

Status Mixture::forward(const Workspace& workspace, const LinearInput& input, std::int64_t count,
                        bool accumulate, const Buffer& y) {
  const KernelContext& context = *workspace.context;
  const Buffer work = workspace.inner.at(0, workspace.chunk_rows * padded(config_.routing.num_experts));
  MixtureArgs args = arguments();
  if (workspace.ranks->split() && !cuts_features()) args.exchange = workspace.ranks;
  const Buffer rest = work.at(0, workspace.chunk_rows * padded(mixture_scratch(args)));

  LinearInput routed = input;
  if (config_.router_norm) {
    CHECK(input.op == LinearInput::Op::rms_norm);  // the same x
    routed.weight = router_norm_.data();
  }
  if (!config_.routes_early) linear(context, router_, routed, count, logits(workspace));
  if (shared_ != nullptr)
    args.before_sum = [&] { return add_shared(workspace, input, count, rest, accumulate, y); };
  PAGODA_RETURN_IF_ERROR(
      mixture(context, args, logits(workspace), input, count, work, accumulate || shared_ != nullptr, y));
  if (!sum_bias_.empty()) add_vector(context, {count, hidden_}, sum_bias_.data(), y);
  return ok_status();
}

// y = (accumulate: y +) the shared expert's result, multiplied by its scale and by the row's gate, if there
// is one.
Status Mixture::add_shared(const Workspace& workspace, const LinearInput& input, std::int64_t count,
                           const Buffer& between, bool accumulate, const Buffer& y) {
  Workspace own = workspace;
  own.inner = between;
  if (!weighs_shared()) return shared_->forward(own, input, count, accumulate, y);
  const KernelContext& context = *workspace.context;
  const RowShape shape = {count, hidden_};
  Buffer share;
  if (config_.shared_gate) {
    share = between.at(0, workspace.chunk_rows * shared_width()).with_stride(1);
    linear(context, shared_router_, input, count, share);
  }
  const Buffer out = between.at(0, workspace.chunk_rows * (shared_width() + padded(1))).with_stride(hidden_);
  PAGODA_RETURN_IF_ERROR(shared_->forward(own, input, count, false, out));
  if (!accumulate) zero_rows(context, shape, y);
  add_share(context, shape, config_.shared_scale, share, out, y);
  return ok_status();
}

}  // namespace

std::unique_ptr<FeedForward> make_part(const MixtureConfig& config, const LayerPlace& place) {
  return std::make_unique<Mixture>(config, place);
}

}  // namespace pagoda
