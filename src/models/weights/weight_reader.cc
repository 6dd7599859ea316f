#include "models/weights/weight_reader.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <span>

#include "base/strings.h"
#include "kernels/dequantize.h"
#include "loader/printable.h"
#include "loader/tensor_file.h"
#include "tensor/shape_text.h"

namespace pagoda {
namespace {

// Returns the shape without outer dimensions of 1.
std::span<const std::int64_t> inner_shape(const std::vector<std::int64_t>& shape) {
  return {std::ranges::find_if(shape, [](std::int64_t extent) { return extent != 1; }), shape.end()};
}

bool same_shape(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::ranges::equal(inner_shape(a), inner_shape(b));
}

// True if the bias is all zeros; AutoGPTQ writes one for every matrix.
bool is_zero_bias(const ModelSource& source, const std::string& name) {
  if (!name.ends_with(".bias")) return false;
  const TensorView& bias = *source.find(name);
  if (!source.bring_in(bias).ok()) return false;
  const bool zero = all_bytes_are(stored_bytes(bias), std::byte{0});
  source.give_back(bias);
  return zero;
}

// Training programs may write the tensor `name` below a prefix, or beside an adapter. Returns half a sentence
// for an error message that says so; empty if they did not.
std::string stands_instead(const ModelSource& source, std::string_view name, std::string_view prefix) {
  if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  const std::string below = concat(".", name);
  const std::size_t last = below.rfind('.');
  const std::string base = concat(below.substr(0, last), ".base_layer", below.substr(last));
  for (const std::string& each : source.tensor_names()) {
    if (each.ends_with(below)) return concat("; there is '", printable(each), "'");
    if (each.ends_with(base))
      return concat("; there is '", printable(each),
                    "', as PEFT writes it: merge the adapter into its model");
  }
  return {};
}

}  // namespace

WeightReader::WeightReader(const ModelSource& source, std::string prefix,
                           std::vector<std::string> other_prefixes)
    : source_(source), prefix_(std::move(prefix)), other_prefixes_(std::move(other_prefixes)) {
  if (source.format() == ModelFormat::gguf) return;
  const std::vector<std::string> names = source.tensor_names();
  for (const std::string_view each : wrapper_prefixes()) {
    if (std::ranges::none_of(names, [&](const std::string& name) { return name.starts_with(each); }))
      continue;
    wrapper_ = each;
    return;
  }
}

void WeightReader::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

std::string WeightReader::name_in_file(const std::string& name) const {
  if (source_.find(name) != nullptr) return name;
  const bool prefixed = name.starts_with(prefix_);
  std::vector<std::string> others;
  if (!wrapper_.empty()) others.push_back(wrapper_ + name);
  if (!wrapper_.empty() && prefixed) others.push_back(wrapper_ + name.substr(prefix_.size()));
  if (prefixed)
    for (const std::string& other : other_prefixes_) others.push_back(other + name.substr(prefix_.size()));
  const auto found =
      std::ranges::find_if(others, [&](const std::string& other) { return source_.find(other) != nullptr; });
  return found == others.end() ? std::string() : *found;
}

const TensorView* WeightReader::find(const std::string& name) const {
  const std::string found = name_in_file(name);
  return found.empty() ? nullptr : source_.find(found);
}

void WeightReader::ignore(const std::string& name) {
  const std::string found = name_in_file(name);
  taken_.insert(found.empty() ? name : found);
}

bool WeightReader::has_tensor(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const TensorView* const tensor = find(name);
  return tensor != nullptr && same_shape(tensor->shape, shape);
}

TensorView WeightReader::take(const std::string& name, const std::vector<std::int64_t>& shape) {
  if (!status_.ok()) return {};
  const TensorView* tensor = find(name);
  if (tensor == nullptr) {
    const std::string absent = source_.absent_file();
    fail(corrupt_data(
        concat("tensor '", name, "' is missing",
               absent.empty() ? stands_instead(source_, name, prefix_)
                              : concat("; so is ", printable(absent), ", which the folder's index names"))));
    return {};
  }
  if (!same_shape(tensor->shape, shape)) {
    fail(corrupt_data(concat("tensor '", name, "' has shape ", shape_text(tensor->shape),
                             " where the model needs ", shape_text(shape))));
    return {};
  }
  if (tensor->dtype == DType::i32 || tensor->dtype == DType::i8 || tensor->dtype == DType::u8) {
    fail(unimplemented(concat("tensor '", name, "' has type ", dtype_info(tensor->dtype).name,
                              ", which is not supported for weights")));
    return {};
  }
  if (!shape.empty() && shape.back() % dtype_info(tensor->dtype).block_elements != 0) {
    fail(corrupt_data(concat("tensor '", name, "' has rows of ", shape.back(),
                             " elements, which are not whole blocks of ", dtype_info(tensor->dtype).name)));
    return {};
  }
  taken_.insert(name_in_file(name));
  return {tensor->dtype, shape, tensor->data};
}

std::vector<float> WeightReader::take_values(const std::string& name, const std::vector<std::int64_t>& shape,
                                             std::int64_t count) {
  const TensorView tensor = take(name, shape);
  if (status_.ok()) fail(source_.bring_in(tensor));
  if (!status_.ok()) return {};
  std::vector<float> values(static_cast<std::size_t>(count));
  dequantize(tensor.dtype, tensor.data, count, values.data());
  source_.give_back(tensor);
  return values;
}

std::vector<float> WeightReader::values(const std::string& name, std::int64_t count) {
  const TensorView* const found = find(name);
  const bool as_stored = found != nullptr && found->elements() == count;
  return take_values(name, as_stored ? found->shape : std::vector<std::int64_t>{count}, count);
}

std::vector<float> WeightReader::channel_taps(const std::string& name, std::int64_t channels,
                                              std::int64_t taps) {
  const std::string weight = name + ".weight";
  const TensorView* const found = find(weight);
  const bool flat = found != nullptr && found->shape.size() == 2;
  std::vector<std::int64_t> shape =
      flat ? std::vector{channels, taps} : std::vector<std::int64_t>{channels, 1, taps};
  if (found != nullptr && has_mlx_taps(found->shape)) std::swap(shape[1], shape[2]);
  const std::vector<float> stored = take_values(weight, shape, channels * taps);
  if (!status_.ok()) return {};
  std::vector<float> values(stored.size());
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t tap = 0; tap < taps; ++tap)
      values[static_cast<std::size_t>(tap * channels + channel)] =
          stored[static_cast<std::size_t>(channel * taps + tap)];
  return values;
}

std::vector<std::string> WeightReader::unused() const {
  constexpr std::array<std::string_view, 4> kBuffers = {".rotary_emb.inv_freq", ".attn.bias",
                                                        ".attn.masked_bias", ".position_ids"};
  std::vector<std::string> names;
  for (const std::string& name : source_.tensor_names()) {
    const bool buffer = std::any_of(kBuffers.begin(), kBuffers.end(),
                                    [&](std::string_view suffix) { return name.ends_with(suffix); });
    if (!buffer && !taken_.contains(name) && !is_zero_bias(source_, name)) names.push_back(name);
  }
  return names;
}

}  // namespace pagoda
