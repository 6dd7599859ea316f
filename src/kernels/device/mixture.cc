// A mixture's step: the choice, each pair of a row and an expert by itself, and the sums.
#include "kernels/device/ops.h"
#include "kernels/linear_storage.h"

namespace pagoda::device_ops {

device::Score score_of(RouterScore score) {
  switch (score) {
    case RouterScore::softmax:
    case RouterScore::sparse_mixer:  // has kernels of its own
      return device::Score::softmax;
    case RouterScore::softmax_of_chosen:
      return device::Score::softmax_of_chosen;
    case RouterScore::sigmoid:
      return device::Score::sigmoid;
  }
  return device::Score::softmax;
}

namespace {

using Room = DeviceOps::Room;

struct Choices {
  std::int32_t* chosen = nullptr;  // [row, choice]
  float* weights = nullptr;
};

Choices choose(DeviceOps& ops, const MixtureArgs& args, const Buffer& logits, std::int64_t num_rows) {
  const RoutingRule& rule = args.routing;
  const std::int64_t pairs = num_rows * rule.per_token;
  const Choices made = {.chosen = reinterpret_cast<std::int32_t*>(ops.room(Room::choices, pairs)),
                        .weights = ops.room(Room::weights, pairs)};
  if (rule.score == RouterScore::sparse_mixer)
    ops.keep(ops.layers().route_sparsely({.logits = floats(logits),
                                          .chosen = made.chosen,
                                          .weights = made.weights,
                                          .experts = rule.num_experts,
                                          .per_token = rule.per_token,
                                          .scale = rule.scale,
                                          .near = rule.near},
                                         num_rows));
  else
    ops.keep(ops.launches().route({.logits = floats(logits),
                                   .correction = args.correction.empty() ? nullptr : args.correction.data(),
                                   .chosen = made.chosen,
                                   .weights = made.weights,
                                   .experts = rule.num_experts,
                                   .per_token = rule.per_token,
                                   .groups = rule.num_groups,
                                   .groups_used = rule.groups_used,
                                   .best_two = rule.group_is_best_two ? 1 : 0,
                                   .score = score_of(rule.score),
                                   .renormalize = rule.renormalize ? 1 : 0,
                                   .scale = rule.scale},
                                  num_rows));
  if (!args.expert_scales.empty())
    ops.keep(ops.layers().scale_choices({.chosen = made.chosen,
                                         .scales = args.expert_scales.data(),
                                         .weights = made.weights,
                                         .count = i32(pairs)}));
  return made;
}

// The product of each pair's expert, part by part of the experts' matrices, which are alike.
void multiply(DeviceOps& ops, std::span<const PackedLinear> experts, device::PairProductArgs args,
              std::int64_t pairs) {
  const PackedLinear::Storage& first = experts.front().storage();
  args.k = i32(first.k);
  for (std::size_t i = 0; i < first.device.size(); ++i) {
    const device::Element element = first.device[i].element;
    std::vector<const void*> weights;
    std::vector<const float*> biases;
    for (const PackedLinear& expert : experts) {
      const std::vector<DevicePart>& parts = expert.storage().device;
      if (parts.size() != first.device.size() || parts[i].element != element)
        return ops.keep(unimplemented("experts of several types are not supported on devices"));
      weights.push_back(parts[i].weight);
      if (parts[i].bias != nullptr) biases.push_back(parts[i].bias);
    }
    args.n = first.device[i].n;
    args.weights = ops.there(weights);
    args.biases = biases.size() == experts.size() ? ops.there(biases) : nullptr;
    ops.keep(ops.layers().pair_product(element, args, pairs));
    args.y.data += args.n;
  }
}

}  // namespace

void mixture(DeviceOps& ops, const MixtureArgs& args, const Buffer& logits, const LinearInput& input,
             std::int64_t num_rows, const Buffer& room, bool accumulate, const Buffer& y) {
  CHECK(args.exchange == nullptr);
  const PackedLinear::Storage& first = args.first.front().storage();
  const std::int64_t hidden = args.second.front().n(), pairs = num_rows * args.routing.per_token;
  const std::int64_t entered = first.num_rows(), inner = first.n;
  CHECK(y.stride == hidden || num_rows == 1);
  const Choices made = choose(ops, args, logits, num_rows);
  float* const x = const_cast<float*>(input_rows(ops, input, num_rows, first.k));
  float* const gate_up = ops.room(Room::entered, pairs * entered);
  float* const features = ops.room(Room::inner, pairs * inner);
  const Buffer outs = room.with_stride(hidden);
  multiply(ops, args.first,
           {.x = {x, first.k},
            .factors = args.weigh_input ? made.weights : nullptr,
            .chosen = made.chosen,
            .y = {gate_up, entered},
            .pairs_of_row = args.routing.per_token},
           pairs);
  ops.keep(ops.launches().activate({.in = gate_up,
                                    .out = features,
                                    .width = i32(inner),
                                    .function = function_of(args.activation),
                                    .gated = first.form == LinearForm::gated ? 1 : 0},
                                   pairs));
  multiply(ops, args.second, {.x = {features, inner}, .chosen = made.chosen, .y = strided(outs)}, pairs);
  ops.keep(ops.launches().combine({.x = floats(outs),
                                   .weights = args.weigh_input ? nullptr : made.weights,
                                   .y = floats(y),
                                   .width = i32(hidden),
                                   .per_token = args.routing.per_token,
                                   .accumulate = accumulate ? 1 : 0},
                                  num_rows));
}

}  // namespace pagoda::device_ops
