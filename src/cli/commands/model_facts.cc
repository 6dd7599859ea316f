#include "cli/commands/model_facts.h"

#include <algorithm>

#include "base/assign_or_return.h"
#include "base/thread_pool.h"
#include "cli/assembly/chosen_types.h"
#include "cli/assembly/hub_paths.h"
#include "cli/assembly/machine.h"
#include "kernels/linear.h"
#include "model_runner/kv_layout_choice.h"
#include "model_runner/kv_memory.h"
#include "models/decoder/decoder.h"
#include "models/family.h"
#include "models/weights/active_weights.h"
#include "models/weights/kv_scales.h"

namespace pagoda {
namespace {

// True if a model of this class produces logits. Other classes have no head, or another one, and produce
// vectors.
bool has_head(const Description& description) {
  if (description.format == "gguf") return !is_encoder(description.model->decoder);
  const std::string& name = description.architecture;
  return !is_encoder(description.model->decoder) && !name.ends_with("Model") &&
         !name.ends_with("Classification");
}

// Checks that the files contain the tensors that the family requires.
Status check_files(const Description& description) {
  if (description.format != "gguf" && description.format != "hugging_face") return ok_status();
  PAGODA_ASSIGN_OR_RETURN(const auto source, ModelSource::open(description.path));
  return DecoderModel::check_tensors(*source, has_head(description));
}

std::int64_t elements(const DescribedTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  return count;
}

Status fill(Description& description) {
  const ModelInfo& model = *description.model;
  ServingFacts facts;
  facts.family = model.family->row.name;
  facts.checked = model.family->row.checked;
  facts.kv_groups = described_kv_groups(model);
  std::vector<StoredMatrices> matrices;
  for (const DescribedTensor& tensor : description.read_tensors()) {
    const auto type = parse_dtype(tensor.type);
    if (type && tensor.shape.size() > 1) matrices.push_back({*type, tensor.bytes});
  }
  facts.default_dtype = chosen_arithmetic("auto", matrices);
  if (const auto source = ModelSource::open(description.path, hub_paths_from_environment())) {
    facts.default_dtype = chosen_arithmetic("auto", **source);
    if (!std::ranges::all_of(facts.kv_groups, &DescribedKvGroup::state))
      facts.default_kv_dtype = kv_dtype_name(automatic_kv_dtype(**source, model, "auto"));
    if (const auto scales = kv_scales(**source, model))
      facts.scaled_layers = static_cast<std::int32_t>(std::ranges::count(*scales, true, &KvScales::in_file));
  }
  if (!is_encoder(model.decoder)) {
    std::vector<StoredTensor> tensors;
    for (const DescribedTensor& tensor : description.read_tensors()) {
      const auto type = parse_dtype(tensor.type);
      const bool packed = type && is_quantized(*type) && tensor.shape.size() > 1;
      tensors.push_back(
          {tensor.name, packed ? estimated_packed_bytes(*type, elements(tensor)) : tensor.bytes});
    }
    facts.active_bytes = active_weight_bytes(
        model.decoder,
        model.names(description.format == "gguf" ? ModelFormat::gguf : ModelFormat::hugging_face), tensors);
  }
  description.facts = std::move(facts);
  return description.supported && !description.tensors.empty() ? check_files(description) : ok_status();
}

}  // namespace

std::vector<DescribedKvGroup> described_kv_groups(const ModelInfo& model) {
  std::vector<DescribedKvGroup> out;
  const auto add = [&](DType dtype, std::int64_t KvBytes::* bytes) {
    const std::vector<KvGroupMemory> groups = kv_memory(model.decoder, dtype);
    out.resize(std::max(out.size(), groups.size()));
    for (std::size_t i = 0; i < groups.size(); ++i) {
      const KvGroupMemory& group = groups[i];
      out[i].num_layers = group.num_layers;
      out[i].window = group.group.window;
      out[i].state = group.group.is_state();
      if (!out[i].state) out[i].per_1024_tokens.*bytes = group.group.rows_for(1024) * group.row_bytes;
      out[i].full_context.*bytes = group.bytes(model.decoder.max_positions);
    }
  };
  add(DType::f32, &KvBytes::float32);
  add(DType::bf16, &KvBytes::bfloat16);
  add(DType::i8, &KvBytes::int8);
  add(DType::e4m3, &KvBytes::fp8);
  return out;
}

void add_facts(Description& description) {
  if (!description.model) return;
  if (const Status status = fill(description); !status.ok()) {
    description.supported = false;
    if (description.reason.empty()) description.reason = status.message();
  }
}

void measure_memory(Description& description) {
  if (!description.facts || description.facts->active_bytes == 0 || !description.supported) return;
  ThreadPool pool(usable_cores());
  description.facts->memory_bytes_per_second = ReadProbe(pool).bytes_per_second();
}

}  // namespace pagoda
