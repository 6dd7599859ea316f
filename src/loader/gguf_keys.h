#pragma once
// Keys: typed access to the GGUF metadata of one architecture, "ARCHITECTURE.NAME". The first failure is
// kept, as in config_fields.h. Of loader/ alone.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/strings.h"
#include "loader/config_options.h"
#include "loader/gguf.h"
#include "loader/model_config.h"
#include "loader/printable.h"

namespace pagoda {

// What follows "ARCHITECTURE." in keys that are read below, or that change nothing.
inline constexpr std::array kKnownKeys = std::to_array<std::string_view>({
    "vocab_size",
    "context_length",
    "embedding_length",
    "block_count",
    "feed_forward_length",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.causal",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_log_multiplier",
    "rope.dimension_sections",
    "attention.sliding_window_pattern",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "tensor_data_layout",
    "use_parallel_residual",
    "expert_count",
    "expert_used_count",
    "pooling_type",
    "nextn_predict_layers",
});

// The same of families with mixtures of experts.
inline constexpr std::array kExpertKeys = std::to_array<std::string_view>({
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_shared_count",
    "expert_weights_scale",
    "expert_weights_norm",
    "expert_gating_func",
    "expert_group_count",
    "expert_group_used_count",
    "leading_dense_block_count",
    "interleave_moe_layer_step",
});

class Keys {
 public:
  Keys(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(concat(architecture, ".")) {}

  bool has(std::string_view name) const { return file_.metadata().contains(key(name)); }

  // A scalar, or an array of which all elements are equal (llama.cpp writes per-layer values so).
  std::int32_t integer(std::string_view name, std::optional<std::int32_t> otherwise = std::nullopt) {
    const std::string full = key(name);
    if (!file_.metadata().contains(full)) {
      if (!otherwise) fail(corrupt_data(concat("GGUF metadata '", full, "' is missing")));
      return otherwise.value_or(0);
    }
    std::optional<std::int64_t> value = file_.integer(full);
    if (const GgufArray* array = file_.array(full); array != nullptr && !array->integers.empty()) {
      value = array->integers.front();
      if (std::any_of(array->integers.begin(), array->integers.end(),
                      [&](auto each) { return each != *value; })) {
        fail(unimplemented(
            concat("GGUF metadata '", full, "' differs between layers, which is not supported")));
      }
    }
    if (!value || *value < std::numeric_limits<std::int32_t>::min() ||
        *value > std::numeric_limits<std::int32_t>::max()) {
      fail(corrupt_data(concat("GGUF metadata '", full, "' is not a 32-bit integer")));
      return 0;
    }
    return static_cast<std::int32_t>(*value);
  }

  // A number for each of `count` layers: an array, or one for all. Empty and failed where it is neither.
  std::vector<std::int32_t> of_layers(std::string_view name, std::int32_t count,
                                      std::optional<std::int32_t> otherwise = std::nullopt) {
    const GgufArray* array = file_.array(key(name));
    std::vector<std::int32_t> out;
    if (array == nullptr || array->integers.empty()) {
      out.assign(static_cast<std::size_t>(std::clamp(count, 0, 4096)), integer(name, otherwise));
      return out;
    }
    for (const std::int64_t each : array->integers)
      out.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(each, -1, 1 << 30)));
    if (out.size() != static_cast<std::size_t>(std::max(count, 0))) {
      fail(corrupt_data(
          concat("GGUF metadata '", key(name), "' has ", out.size(), " entries for ", count, " layers")));
      out.clear();
    }
    return out;
  }

  float number(std::string_view name, std::optional<float> otherwise = std::nullopt) {
    const std::string full = key(name);
    const std::optional<double> value = file_.number(full);
    if (value) return static_cast<float>(*value);
    if (file_.metadata().contains(full)) {
      fail(corrupt_data(concat("GGUF metadata '", full, "' is not a number")));
    } else if (!otherwise) {
      fail(corrupt_data(concat("GGUF metadata '", full, "' is missing")));
    }
    return otherwise.value_or(1.0f);
  }

  std::string string(std::string_view name, std::string_view otherwise) {
    const std::string full = key(name);
    if (const std::string* value = file_.string(full)) return *value;
    if (file_.metadata().contains(full))
      fail(corrupt_data(concat("GGUF metadata '", full, "' is not a string")));
    return std::string(otherwise);
  }

  bool boolean(std::string_view name, bool otherwise) {
    const std::string full = key(name);
    if (const std::optional<bool> value = file_.boolean(full)) return *value;
    if (file_.metadata().contains(full))
      fail(corrupt_data(concat("GGUF metadata '", full, "' is not true or false")));
    return otherwise;
  }

  // `own`: those of this family alone. Of those that nobody reads, the ones that say how the model computes
  // are refused, and the others listed.
  void refuse_unknown(std::span<const std::string_view> own, bool experts, ModelConfig& config) {
    constexpr std::size_t kMostListed = 32;
    for (const auto& [full, value] : file_.metadata()) {
      if (!full.starts_with(prefix_)) continue;
      const std::string_view name = std::string_view(full).substr(prefix_.size());
      if (std::find(kKnownKeys.begin(), kKnownKeys.end(), name) != kKnownKeys.end() ||
          std::find(own.begin(), own.end(), name) != own.end() || is_zero(value))
        continue;
      if (experts && std::find(kExpertKeys.begin(), kExpertKeys.end(), name) != kExpertKeys.end()) continue;
      if (gguf_option_computes(name))
        fail(unimplemented(concat("GGUF option '", printable(full), "' is not supported")));
      else if (config.unknown_options.size() < kMostListed)
        config.unknown_options.push_back(printable(full, 100));
    }
  }

  void fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const Status& status() const { return status_; }

 private:
  std::string key(std::string_view name) const { return concat(prefix_, name); }
  static bool is_zero(const GgufValue& value) {
    if (const auto* number = std::get_if<std::int64_t>(&value)) return *number == 0;
    if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number == 0;
    if (const auto* number = std::get_if<double>(&value)) return *number == 0;
    if (const auto* boolean = std::get_if<bool>(&value)) return !*boolean;
    return false;
  }

  const GgufFile& file_;
  std::string prefix_;
  Status status_;
};

}  // namespace pagoda
