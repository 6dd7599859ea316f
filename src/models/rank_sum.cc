#include "models/rank_sum.h"

namespace pagoda {

Status RankSum::sum(std::span<float> data, std::int64_t length, std::span<const std::int32_t> parts) const {
  if (parallel_.communicator != nullptr) {
    const auto order = parallel_.deterministic ? Communicator::Order::in_order : Communicator::Order::any;
    return parallel_.communicator->all_reduce_sum(data, length, parts, order, parallel_.timeout);
  }
  for (std::int32_t part = 1; part < parts[0]; ++part)
    add_vector(data.data() + part * length, length, data.data());
  return ok_status();
}

Status RankSum::add_product(const KernelContext& context, const RowParallelLinear& weight,
                            std::span<const std::int32_t> parts, LinearInput input, std::int64_t count,
                            float* y) const {
  if (!split_) {
    linear(context, weight.front(), input, count, y, {.accumulate = true});
    return ok_status();
  }
  const std::int64_t length = count * weight.front().n();
  float* out = partial_;
  for (const PackedLinear& piece : weight) {
    linear(context, piece, input, count, out);
    input.x += piece.k();
    out += length;
  }
  PAGODA_RETURN_IF_ERROR(sum(std::span(partial_, out), length, parts));
  add_vector(partial_, length, y);
  return ok_status();
}

}  // namespace pagoda
