#include "device_runner/device_weights.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/strings.h"
#include "kernels/device/stored_rows.h"
#include "models/attention_weights.h"
#include "models/decoder.h"
#include "models/expert_weights.h"

namespace pagoda::device_runner {
namespace {

using device::DeviceArray;
using device::Element;

// Takes tensors out of a WeightLoader to the device. As there, the first failure is kept.
class Upload {
 public:
  Upload(device::Device& device, device::StreamId stream, WeightLoader& loader, Element element,
         QuantizedRows quantized)
      : device_(device), stream_(stream), loader_(loader), element_(element), quantized_(quantized) {}

  DeviceMatrix matrix(Matrices matrices, const std::string& name) {
    const bool keep = quantized_ == QuantizedRows::keep;
    return alone(keep ? std::nullopt : std::optional(element_), std::move(matrices), name);
  }
  // In the element type even if it is stored quantised.
  DeviceMatrix table(Matrices matrices, const std::string& name) {
    return alone(element_, std::move(matrices), name);
  }
  // In f32: what decides.
  DeviceMatrix exact(const std::string& name, std::int64_t rows, std::int64_t columns) {
    Matrices matrices;
    loader_.add(matrices, name, rows, columns, std::array{Range{0, rows}});
    return alone(Element::f32, std::move(matrices), name);
  }
  // A matrix whose rows come from tensors of several types, cut where the type changes.
  std::vector<DeviceMatrix> parts(Matrices matrices, const std::string& name) {
    std::vector<DeviceMatrix> result;
    if (!bring_in(matrices, name)) return result;
    const std::span<const TensorView> views = matrices.views;
    const auto kind = [&](std::size_t i) { return quantized_element(views.subspan(i, 1)); };
    // Kernels store pairs of columns.
    const bool cut = quantized_ == QuantizedRows::keep &&
                     std::ranges::all_of(views, [](const auto& view) { return view.rows() % 2 == 0; });
    std::size_t first_bias = 0;
    for (std::size_t first = 0; first < views.size();) {
      std::size_t behind = cut ? first + 1 : views.size();
      while (behind < views.size() && kind(behind) == kind(first)) ++behind;
      DeviceMatrix& part = result.emplace_back();
      const bool keep = quantized_ == QuantizedRows::keep;
      place(part, 0, 1, views.subspan(first, behind - first),
            std::span(matrices.bias).subspan(std::min(first_bias, matrices.bias.size())), name,
            keep ? std::nullopt : std::optional(element_));
      first_bias += static_cast<std::size_t>(part.n);
      first = behind;
    }
    loader_.give_back(matrices);
    return result;
  }
  // Expert `index` of `count`; they are alike. The first makes room for all. `element`: or as the file has
  // it.
  void add_expert(DeviceMatrix& result, std::int64_t index, std::int64_t count, Matrices matrices,
                  const std::string& name, std::optional<Element> element = {}) {
    if (!bring_in(matrices, name)) return;
    place(result, index, count, matrices.views, matrices.bias, name, element);
    loader_.give_back(matrices);
  }

  DeviceMatrix rows_of(const std::string& name, std::int64_t rows, std::int64_t columns, float factor = 1) {
    Matrices matrices;
    loader_.add(matrices, name, rows, columns, std::array{Range{0, rows}}, factor);
    return matrix(std::move(matrices), name);
  }

  DeviceArray<float> vector(const std::vector<float>& values, const std::string& name) {
    DeviceArray<float> result;
    if (!loader_.status().ok() || values.empty() || !create(result, std::ssize(values), name)) return result;
    send_floats(values, result.bytes());
    return result;
  }

  DeviceNorm norm(const std::string& name, std::int64_t size, const NormConfig& config, float scale = 1) {
    NormWeights weights = loader_.norm(name, size, config);
    for (std::vector<float>* part : {&weights.weight, &weights.bias})
      for (float& value : *part) value *= scale;
    DeviceNorm result;
    result.weight = vector(weights.weight, name);
    result.bias = vector(weights.bias, name);
    return result;
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  static constexpr std::int64_t kStage = std::int64_t{4} << 20;

  DeviceMatrix alone(std::optional<Element> element, Matrices matrices, const std::string& name) {
    DeviceMatrix result;
    add_expert(result, 0, 1, std::move(matrices), name, element);
    return result;
  }
  bool bring_in(Matrices& matrices, const std::string& name) {
    return loader_.status().ok() && keep(loader_.bring_in(matrices), name);
  }
  // The first of `bias` are these rows'; none: there is no bias.
  void place(DeviceMatrix& result, std::int64_t index, std::int64_t count, std::span<const TensorView> views,
             std::span<const float> bias, const std::string& name, std::optional<Element> element) {
    if (index == 0) {
      result.element = element ? *element : quantized_element(views).value_or(element_);
      result.k = static_cast<std::int32_t>(views.front().columns());
      for (const TensorView& view : views) result.n += static_cast<std::int32_t>(view.rows());
      const std::int64_t bytes = device::KernelLaunches::row_bytes(result.element, result.k);
      if (!create(result.weight, count * result.n * bytes, name)) return;
      if (!bias.empty() && !create(result.bias, count * result.n, name)) return;
    }
    // An expert whose type is another than the first's has no place here.
    if (result.element > Element::bf16 && quantized_element(views) != result.element)
      return loader_.reader().fail(corrupt_data(concat("tensor '", name, "': experts of several types")));
    const std::int64_t bytes = device::KernelLaunches::row_bytes(result.element, result.k);
    std::byte* to = result.weight.bytes() + index * result.n * bytes;
    std::vector<std::byte> row;
    for (const TensorView& view : views)
      for (std::int64_t i = 0; i < view.rows(); ++i, to += bytes) {
        row.clear();
        append_row(result.element, view, i, row);
        if (!send(row, to)) return;
      }
    if (!bias.empty())
      send_floats(bias.first(static_cast<std::size_t>(result.n)),
                  reinterpret_cast<std::byte*>(result.bias.data() + index * result.n));
    flush();
  }
  bool keep(const Status& status, const std::string& name) {
    if (!status.ok()) loader_.reader().fail(status.annotate(concat("tensor '", name, "'")));
    return status.ok();
  }
  template <class T>
  bool create(DeviceArray<T>& array, std::int64_t count, const std::string& name) {
    auto made = DeviceArray<T>::create(device_, count, name);
    if (!made) return keep(made.error(), name);
    array = *std::move(made);
    bytes_ += array.size_bytes();
    return true;
  }
  void send_floats(std::span<const float> values, std::byte* to) {
    flush();
    std::vector<std::byte> bytes;
    append_floats(Element::f32, values, bytes);
    send(bytes, to);
    flush();
  }

  // Behind what was sent last, or elsewhere.
  bool send(std::span<const std::byte> values, std::byte* to) {
    const std::int64_t bytes = std::ssize(values);
    if (staged_ > 0 && (to != first_ + staged_ || staged_ + bytes > stage_.count()) && !flush()) return false;
    if (stage_.count() < bytes) {
      stage_ = {};
      auto made = device::PinnedArray<std::byte>::create(device_, std::max(kStage, bytes));
      if (!made) return keep(made.error(), "staging");
      stage_ = *std::move(made);
    }
    if (staged_ == 0) first_ = to;
    std::memcpy(stage_.bytes() + staged_, values.data(), values.size());
    staged_ += bytes;
    return true;
  }

  bool flush() {
    if (staged_ == 0) return true;
    const Status copied = device_.copy_in(stream_, first_, stage_.bytes(), static_cast<std::size_t>(staged_));
    staged_ = 0;
    return keep(copied.ok() ? device_.synchronize(stream_) : copied, "staging");
  }

  device::Device& device_;
  device::StreamId stream_;
  WeightLoader& loader_;
  const Element element_;  // element of matrices that are not quantised
  const QuantizedRows quantized_;
  device::PinnedArray<std::byte> stage_;
  std::int64_t staged_ = 0, bytes_ = 0;
  std::byte* first_ = nullptr;  // destination of the first staged bytes
};

DeviceNorms norms_around(const LayerConfig& layer, const NormPlaces& places, const std::string& name,
                         const std::string& branch_name, std::int64_t size, Upload& upload) {
  DeviceNorms norms;
  if (places.input) norms.input = upload.norm(name, size, layer.norm);
  if (places.sum) norms.sum = upload.norm(name, size, layer.norm);
  if (places.branch) norms.branch = upload.norm(branch_name, size, layer.norm);
  return norms;
}

DeviceDense load_dense(const DenseFeedForwardConfig& config, const DenseNames& names, const LayerPlace& place,
                       WeightLoader& loader, Upload& upload) {
  DeviceDense result;
  result.in = upload.matrix(read_dense(config, names, {0, config.intermediate_size}, place, loader),
                            place.prefix + (names.gate_up.empty() ? names.up : names.gate_up));
  result.down = upload.rows_of(place.prefix + names.down, place.hidden_size, config.intermediate_size,
                               config.down_factor);
  return result;
}

DeviceMixture load_mixture(const MixtureConfig& config, const LayerPlace& place, WeightLoader& loader,
                           Upload& upload) {
  const std::int64_t experts = config.routing.num_experts, hidden = place.hidden_size;
  const ExpertNames& names = choose_expert_names(place.prefix, loader);
  DeviceMixture result;
  result.router = upload.exact(place.prefix + names.router, experts, hidden);
  if (!names.correction.empty())
    result.correction = upload.vector(
        loader.reader().optional_vector(place.prefix + names.correction, experts), names.correction);
  std::int64_t counts[2] = {};
  read_experts(config, names, place.prefix, hidden, {0, experts}, loader,
               [&](ExpertMatrix which, Matrices matrices, const std::string& name) {
                 const bool in = which == ExpertMatrix::in;
                 upload.add_expert(in ? result.in : result.out, counts[in ? 0 : 1]++, experts,
                                   std::move(matrices), name);
               });
  if (config.shared_intermediate_size == 0) return result;
  DenseFeedForwardConfig shared = config.expert;
  shared.intermediate_size = config.shared_intermediate_size;
  result.shared =
      load_dense(shared, {names.shared_gate, names.shared_up, names.shared_down, names.shared_gate_up}, place,
                 loader, upload);
  if (config.shared_gate) result.shared_router = upload.exact(place.prefix + names.shared_router, 1, hidden);
  return result;
}

DeviceLayer load_layer(const DecoderConfig& config, std::int32_t index, WeightLoader& loader,
                       Upload& upload) {
  const LayerConfig& layer = config.layers[static_cast<std::size_t>(index)];
  const AttentionConfig& attention = *layer.attention();
  const WeightNames& names = loader.names();
  const LayerPlace place = {.index = index,
                            .prefix = names.layer_prefix(index),
                            .hidden_size = config.hidden_size,
                            .norm = &layer.norm};
  const std::string& prefix = place.prefix;
  const std::int64_t hidden = config.hidden_size;
  DeviceLayer result;
  result.mixer_norms = norms_around(layer, layer.mixer_norms, prefix + names.attention_norm,
                                    prefix + names.attention_branch_norm, hidden, upload);
  // As on the CPU (models/decoder_weights.cc).
  const bool shared =
      layer.parallel && (names.mlp_norm.empty() || !loader.reader().has(prefix + names.mlp_norm + ".weight"));
  result.feed_forward_norms =
      norms_around(layer, layer.feed_forward_norms, prefix + (shared ? names.attention_norm : names.mlp_norm),
                   prefix + names.mlp_branch_norm, hidden, upload);
  const HeadShard heads = {.query = {0, attention.num_heads}, .kv = {0, attention.num_kv_heads}, .ranks = {}};
  AttentionWeights weights = read_attention(attention, heads, place, config, loader);
  result.query_norm = upload.vector(weights.query_norm, prefix + names.query_norm);
  result.key_norm = upload.vector(weights.key_norm, prefix + names.key_norm);
  result.sinks = upload.vector(weights.sinks, prefix + names.sinks);
  result.slopes = upload.vector(attention.slopes, prefix + "slopes");
  result.query_key_value = upload.parts(std::move(weights.query_key_value), weights.name);
  result.output = upload.rows_of(prefix + names.attention_output, hidden, attention.query_size(),
                                 attention.output_factor);
  if (layer.mixture() != nullptr)
    result.mixture = load_mixture(*layer.mixture(), place, loader, upload);
  else
    result.dense = load_dense(*layer.dense(), {names.gate, names.up, names.down, names.fused_gate_up}, place,
                              loader, upload);
  return result;
}

}  // namespace

Result<DeviceWeights> load_device_weights(device::Device& device, device::StreamId stream,
                                          const ModelSource& source, const WeightNames& names,
                                          const DecoderConfig& config, Element element,
                                          QuantizedRows quantized) {
  const KernelContext context = {.backend = Backend::reference};
  WeightStore store;
  WeightLoader loader(context, source, names, 0, "float32", store);
  WeightReader& reader = loader.reader();
  Upload upload(device, stream, loader, element, quantized);
  DeviceWeights weights;
  const Range all = {0, config.vocab_size};
  const auto vocabulary = [&](const std::string& name, const std::string& bias) {
    Matrices matrices;
    const TensorView rows = reader.matrix(name + ".weight", config.vocab_size, config.embedding_size);
    loader.add_rows(matrices, rows, name, all);
    matrices.bias = reader.optional_vector(bias + ".bias", config.vocab_size);
    return matrices;
  };
  const TensorView stored =
      reader.matrix(names.token_embedding + ".weight", config.vocab_size, config.embedding_size);
  // The head's products are those of the widened table only where its weights are one product each.
  Matrices embedding = vocabulary(names.token_embedding, names.token_embedding);
  const std::optional<Element> kind =
      reader.status().ok() ? quantized_element(embedding.views) : std::nullopt;
  const bool as_stored = !config.tied_head || kind == Element::q8 || kind == Element::q6_k;
  weights.embedding = as_stored ? upload.matrix(std::move(embedding), names.token_embedding)
                                : upload.table(std::move(embedding), names.token_embedding);
  weights.embedding_scale = embedding_scale(config, stored.dtype);
  const std::int64_t embedding_bytes = upload.bytes();
  if (config.learned_positions) {
    const std::string name = names.position_embedding + ".weight";
    const std::int64_t count = config.max_positions + config.position_offset;
    Matrices matrices;
    loader.add_rows(matrices, reader.matrix(name, count, config.hidden_size), name, {0, count});
    weights.positions = upload.table(std::move(matrices), name);
  }
  if (config.embedding_norm)
    weights.embedding_norm = upload.norm(names.embedding_norm, config.hidden_size, *config.embedding_norm);
  if (!names.rope_factors.empty() && !config.ropes.empty()) {
    for (const std::string& other : {names.rope_factors_short, names.rope_factors_long}) reader.ignore(other);
    weights.rope_factors = reader.optional_vector(names.rope_factors, config.ropes.front().rotary_size / 2);
  }
  for (std::int32_t index = 0; index < config.num_layers() && loader.status().ok(); ++index)
    weights.layers.push_back(load_layer(config, index, loader, upload));
  if (config.final_norm)
    weights.final_norm =
        upload.norm(names.final_norm, config.hidden_size, *config.final_norm, config.logit_scale);
  if (config.tied_head) {
    reader.ignore(names.head + ".weight");
    // With a bias of its own (GPT-J) it is a second copy.
    if (reader.has(names.head + ".bias"))
      weights.own_head = upload.table(vocabulary(names.token_embedding, names.head), names.head);
  } else {
    const bool other = !names.other_head.empty() && !reader.has(names.head + ".weight") &&
                       reader.has(names.other_head + ".weight");
    const std::string& name = other ? names.other_head : names.head;
    weights.own_head = upload.matrix(vocabulary(name, name), name);
  }
  if (!loader.status().ok()) return loader.status();
  weights.bytes = upload.bytes() - embedding_bytes;
  weights.ignored_tensors = reader.unused();
  return weights;
}

}  // namespace pagoda::device_runner
