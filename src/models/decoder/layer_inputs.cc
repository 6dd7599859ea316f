#include "models/decoder/layer_inputs.h"

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "base/strings.h"
#include "kernels/elementwise.h"
#include "kernels/rows.h"

namespace pagoda {

LayerInputs LayerInputs::load(const DecoderConfig& config, WeightLoader& loader) {
  const WeightNames& names = loader.names();
  const NormConfig& norm = *config.final_norm;
  LayerInputs inputs;
  inputs.size_ = config.layer_input->size;
  inputs.hidden_ = config.hidden_size;
  inputs.activation_ = config.layer_input->activation;
  inputs.eps_ = norm.eps;
  const std::int64_t size = inputs.size_, layers = config.num_layers();
  inputs.rows_ = config.layer_input->rows > 0 ? config.layer_input->rows : config.vocab_size;
  const std::int64_t rows = inputs.rows_;
  const std::string table = names.input_table + ".weight";
  TensorView stored = loader.reader().matrix(table, rows, layers * size);
  if (!loader.status().ok()) return inputs;
  if (size % dtype_info(stored.dtype).block_elements != 0 ||
      rows * layers > std::numeric_limits<std::int32_t>::max()) {
    loader.reader().fail(
        unimplemented(concat("tensor '", table, "': ", size, " features of a layer in blocks of ",
                             dtype_info(stored.dtype).name, " are not supported")));
    return inputs;
  }
  stored.shape = {rows * layers, size};  // a row for each token and layer
  inputs.table_ = loader.keep_rows(stored, table, {0, rows * layers});
  inputs.norm_ = loader.place(loader.norm_vector(names.input_norm, size, norm));
  for (std::int32_t layer = 0; layer < layers && loader.status().ok(); ++layer) {
    const std::string prefix = names.layer_prefix(layer);
    Matrices projection;
    loader.add(projection, names.input_projection, layers * size, config.hidden_size,
               std::array{Range{layer * size, size}});
    inputs.layers_.push_back({.projection = loader.pack(std::move(projection), names.input_projection),
                              .gate = loader.linear(prefix + names.input_gate, size, config.hidden_size),
                              .output = loader.linear(prefix + names.input_output, config.hidden_size, size),
                              .branch_norm = loader.place(loader.norm_vector(prefix + names.input_branch_norm,
                                                                             config.hidden_size, norm))});
  }
  return inputs;
}

Buffer LayerInputs::make(const KernelContext& context, std::int32_t layer, std::span<const std::int32_t> ids,
                         const Buffer& embedded, const Buffer& x, const Buffer& room) {
  const Layer& own = layers_[static_cast<std::size_t>(layer)];
  const auto count = static_cast<std::int64_t>(ids.size()), size = std::int64_t{size_};
  const RowShape shape = {count, size};
  const Buffer projected = room.with_stride(size), input = projected.at(count), gated = input.at(count),
               out = gated.at(count).with_stride(hidden_), normed = out.at(count);
  // A token's rows for all layers are consecutive in the table.
  places_.clear();
  for (const std::int32_t id : ids)
    places_.push_back((id < rows_ ? id : 0) * static_cast<std::int32_t>(layers_.size()) + layer);
  linear(context, own.projection, LinearInput::rows(embedded), count, projected);
  scale_rows(context, shape, 1.0f / std::sqrt(static_cast<float>(hidden_)), projected);
  rms_norm(context, projected, count, size, norm_.data(), eps_, input);
  embedding(context, table_, places_, projected);
  linear(context, own.gate, LinearInput::rows(x), count, gated, {.activation = activation_});
  times_sum(context, shape, input, std::sqrt(static_cast<float>(size)), projected, std::sqrt(0.5f), gated);
  linear(context, own.output, LinearInput::rows(gated), count, out);
  rms_norm(context, out, count, hidden_, own.branch_norm.data(), eps_, normed);
  return normed;
}

}  // namespace pagoda
