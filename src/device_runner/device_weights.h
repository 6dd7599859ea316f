#pragma once
// DeviceWeights: a decoder's weights on a device. Matrices that a file has in 4 bits, as Q6_K or as Q8_0 stay
// so (stored_rows.h), the table of embeddings among them; others are widened to one element type; routers and
// all else are in f32.
// Tensors are found, cut and reordered by models/weight_loader.h, as for the CPU. Nothing of the source is
// kept.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/device_array.h"
#include "device/kernel_launches.h"
#include "loader/model_source.h"
#include "models/decoder_config.h"
#include "models/weight_names.h"

namespace pagoda::device_runner {

struct DeviceMatrix {
  device::Element element = device::Element::f32;
  device::DeviceArray<std::byte> weight;  // [n, k]; of experts one below the other
  device::DeviceArray<float> bias;        // [n], or empty
  std::int32_t n = 0, k = 0;              // one expert
};

struct DeviceNorm {
  device::DeviceArray<float> weight, bias;  // bias: or empty
};

// Around a half of a layer; empty where NormPlaces has none.
struct DeviceNorms {
  DeviceNorm input, branch, sum;
};

struct DeviceDense {
  DeviceMatrix in, down;  // in: gate above up, or up alone
};

struct DeviceMixture {
  DeviceMatrix router, shared_router;     // in f32, whatever the others are; the second may be empty
  device::DeviceArray<float> correction;  // or empty
  DeviceMatrix in, out;                   // all experts
  std::optional<DeviceDense> shared;
};

struct DeviceLayer {
  DeviceNorms mixer_norms, feed_forward_norms;
  std::vector<DeviceMatrix> query_key_value;  // parts below each other, one for each type that the file has
  DeviceMatrix output;
  device::DeviceArray<float> query_norm, key_norm;  // as QueryKeyNorm says; or empty
  device::DeviceArray<float> sinks, slopes;         // query heads; or empty
  DeviceDense dense;                                // or
  std::optional<DeviceMixture> mixture;
};

struct DeviceWeights {
  DeviceMatrix embedding;
  float embedding_scale = 1;
  DeviceMatrix positions;                // learned; or empty
  DeviceNorm embedding_norm;             // or empty
  std::optional<DeviceMatrix> own_head;  // absent: the embedding is the head, too
  std::vector<DeviceLayer> layers;
  DeviceNorm final_norm;            // with the logits' scale; or empty
  std::vector<float> rope_factors;  // divisors of the first rotation's frequencies; empty: none
  std::int64_t bytes = 0;           // device memory, without the embedding's
  std::vector<std::string> ignored_tensors;

  const DeviceMatrix& head() const { return own_head ? *own_head : embedding; }
};

// Whether dense matrices keep the quantised numbers of their file, which the library's products do not read.
enum class QuantizedRows : std::uint8_t { keep, widen };

// For a config that check_support() takes. corrupt_data names the tensor that is missing or misshapen.
Result<DeviceWeights> load_device_weights(device::Device& device, device::StreamId stream,
                                          const ModelSource& source, const WeightNames& names,
                                          const DecoderConfig& config, device::Element element,
                                          QuantizedRows quantized);

}  // namespace pagoda::device_runner
