#include "kernels/linear_attention.h"

#include <vector>

#include "kernels/reference/reference.h"

namespace pagoda::reference {

void linear_attention(const LinearAttentionArgs& args, const StateSequence& sequence, std::int32_t head) {
  const std::int32_t keys = args.key_size, values = args.value_size, piece = args.piece + head;
  std::vector<float> state(static_cast<std::size_t>(keys) * static_cast<std::size_t>(values));  // [Dk, Dv]
  const auto at = [&](std::int32_t i, std::int32_t j) -> float& {
    return state[static_cast<std::size_t>(i) * static_cast<std::size_t>(values) +
                 static_cast<std::size_t>(j)];
  };
  const auto for_all = [&](const auto& body) {
    for (std::int32_t i = 0; i < keys; ++i)
      for (std::int32_t j = 0; j < values; ++j) body(at(i, j), state_index(keys, values, i, j));
  };
  const auto write = [&](float* to) { for_all([&](float& s, std::int64_t index) { to[index] = s; }); };
  if (!sequence.fresh) {
    const float* from = args.states.piece(sequence, piece);
    for_all([&](float& s, std::int64_t index) { s = from[index]; });
  }
  for (std::int32_t row = 0; row < sequence.num_rows; ++row) {
    const std::int64_t r = sequence.first_row + row;
    const float* query = floats(args.query, r) + std::int64_t{args.key_head(head)} * keys;
    const float* key = floats(args.key, r) + std::int64_t{args.key_head(head)} * keys;
    const float* value = floats(args.value, r) + std::int64_t{head} * values;
    float* output = floats(args.output, r) + std::int64_t{head} * values;
    const double decay = floats(args.decay, r)[head], weight = floats(args.weight, r)[head];
    for (std::int32_t j = 0; j < values; ++j) {
      double known = 0, sum = 0;
      for (std::int32_t i = 0; i < keys; ++i) known += decay * at(i, j) * key[i];
      const double d = weight * (args.delta_rule ? value[j] - known : value[j]);
      for (std::int32_t i = 0; i < keys; ++i) {
        at(i, j) = static_cast<float>(decay * at(i, j) + key[i] * d);
        sum += static_cast<double>(at(i, j)) * query[i];
      }
      if (args.skip != nullptr) sum += static_cast<double>(args.skip[head]) * value[j];
      output[j] = static_cast<float>(sum);
    }
    for (const StateStore& store : sequence.stores)
      if (store.num_rows == row + 1) write(args.states.piece(store, piece));
    if (row + 1 == sequence.num_rows - sequence.num_drafts) write(args.states.piece(sequence, piece));
  }
}

}  // namespace pagoda::reference
