#include "models/decoder/decoder_weights.h"

#include "base/strings.h"
#include "models/weights/weight_loader.h"

namespace pagoda {
namespace {

NormsAround norms_around(const LayerConfig& layer, const NormPlaces& places, const std::string& name,
                         const std::string& branch_name, std::int64_t size, WeightLoader& loader) {
  NormsAround norms;
  if (places.input) norms.input = loader.place(loader.norm(name, size, layer.norm));
  if (places.sum) norms.sum = loader.place(loader.norm(name, size, layer.norm));
  if (places.branch) norms.branch = loader.place(loader.norm(branch_name, size, layer.norm));
  return norms;
}

std::int64_t multiplications(const Products& products) {
  std::int64_t sum = 0;
  for (const PackedLinear* matrix : products) sum += matrix->multiplications();
  return sum;
}

DecoderLayer load_layer(const DecoderConfig& config, const TensorShard& shard, std::int32_t index,
                        WeightLoader& loader) {
  const LayerConfig& layer = config.layers[static_cast<std::size_t>(index)];
  const WeightNames& names = loader.names();
  const LayerPlace place = {.loader = loader,
                            .decoder = config,
                            .norm = layer.norm,
                            .shard = shard.layers[static_cast<std::size_t>(index)],
                            .hidden_size = config.hidden_size,
                            .index = index,
                            .prefix = names.layer_prefix(index)};
  DecoderLayer result;
  result.mixer_norms = norms_around(layer, layer.mixer_norms, place.prefix + names.attention_norm,
                                    place.prefix + names.attention_branch_norm, config.hidden_size, loader);
  // Sublayers with the same input share a norm if the second has none of its own.
  const bool shared = layer.parallel && (names.mlp_norm.empty() ||
                                         !loader.reader().has(place.prefix + names.mlp_norm + ".weight"));
  result.feed_forward_norms = norms_around(layer, layer.feed_forward_norms,
                                           place.prefix + (shared ? names.attention_norm : names.mlp_norm),
                                           place.prefix + names.mlp_branch_norm, config.hidden_size, loader);
  const auto make = [&](const auto& part) { return make_part(part, place); };
  result.mixer = std::visit(make, layer.mixer);
  result.feed_forward = std::visit(make, layer.feed_forward);
  if (layer.learned_residual > 0)
    result.learned_residual = LearnedResidual::load(config, layer, place.prefix, loader);
  if (layer.output_scale) {
    const std::vector<float> scale = loader.reader().vector(place.prefix + names.output_scale, 1);
    if (!scale.empty()) result.output_scale = scale.front();
  }
  if (!loader.status().ok()) return {};
  result.mixer_in = multiplications(result.mixer->input_products());
  result.mixer_out = multiplications(result.mixer->output_products());
  result.feed_forward_in = multiplications(result.feed_forward->input_products());
  result.feed_forward_out = multiplications(result.feed_forward->output_products());
  return result;
}

// Links the products in the order in which a step computes them; the head's successor is the first of the
// next step.
void link(DecoderWeights& weights) {
  PackedLinear* before = &weights.head;
  const auto then = [&](const Products& products) {
    for (PackedLinear* matrix : products) {
      before->precedes(*matrix);
      before = matrix;
    }
  };
  for (DecoderLayer& layer : weights.layers) {
    then(layer.mixer->input_products());
    then(layer.mixer->output_products());
    then(layer.feed_forward->input_products());
    then(layer.feed_forward->output_products());
  }
  then({&weights.head});
}

void load_head(const WeightNames& names, const DecoderConfig& config, const TensorShard& shard,
               WeightLoader& loader, const TensorView& token_embedding, DecoderWeights& weights) {
  WeightReader& reader = loader.reader();
  Matrices head;
  const auto add_bias = [&](const std::string& name) {
    const std::vector<float> bias = reader.optional_vector(name + ".bias", config.vocab_size);
    const Range own = shard.own_vocab();
    if (!bias.empty()) head.bias.assign(bias.begin() + own.first, bias.begin() + own.end());
  };
  const auto add_to_adapt = [&](const std::string& name) {
    head.adapted.emplace_back(0, AdapterTargetPart{.tensor = loader.name_for_adapters(name + ".weight"),
                                                   .tensor_rows = config.vocab_size,
                                                   .columns = config.embedding_size,
                                                   .first_row = shard.own_vocab().first,
                                                   .rows = shard.own_vocab().count});
  };
  if (!config.head) {
    for (const std::string& name : {names.head, names.other_head})
      for (const char* part : {".weight", ".bias"}) reader.ignore(name + part);
    for (const std::string& name : names.of_other_heads) reader.ignore(name);
  } else if (config.tied_head) {
    const std::string embedding = names.token_embedding + ".weight";
    loader.add_rows(head, token_embedding, embedding, shard.own_vocab());
    add_bias(names.head);
    add_to_adapt(names.head);
    weights.head = loader.pack(std::move(head), embedding, LinearForm::stacked, RowsAdapt::yes);
    for (const std::string& name : {names.head, names.other_head})  // a second copy
      reader.ignore(name + ".weight");
  } else {  // never transposed, unlike all other matrices of Conv1D families
    const bool other = !names.other_head.empty() && !reader.has(names.head + ".weight") &&
                       reader.has(names.other_head + ".weight");
    const std::string& name = other ? names.other_head : names.head;
    const TensorView rows = reader.matrix(name + ".weight", config.vocab_size, config.embedding_size);
    loader.add_rows(head, rows, name, shard.own_vocab());
    add_bias(name);
    add_to_adapt(name);
    weights.head = loader.pack(std::move(head), name, LinearForm::stacked, RowsAdapt::yes);
  }
}

// Loads the other embeddings, and the matrices between embedding size and hidden size.
void load_embeddings(const WeightNames& names, const DecoderConfig& config, WeightLoader& loader,
                     DecoderWeights& weights) {
  if (config.learned_positions) {
    const std::string positions = names.position_embedding + ".weight";
    const std::int64_t count = config.max_positions + config.position_offset;
    const TensorView stored = loader.reader().matrix(positions, count, config.hidden_size);
    weights.position_embedding = loader.keep_rows(stored, positions, {0, count});
  }
  if (config.token_types > 0) {
    const std::string types = names.type_embedding + ".weight";
    const TensorView stored = loader.reader().matrix(types, config.token_types, config.hidden_size);
    weights.type_embedding = loader.keep_rows(stored, types, {0, config.token_types});
  }
  if (config.embedding_norm)
    weights.embedding_norm =
        loader.place(loader.norm(names.embedding_norm, config.hidden_size, *config.embedding_norm));
  if (config.embedding_size != config.hidden_size) {
    weights.project_in = loader.linear(names.project_in, config.hidden_size, config.embedding_size);
    weights.project_out = loader.linear(names.project_out, config.embedding_size, config.hidden_size);
  }
}

void load_rope_factors(const WeightNames& names, const DecoderConfig& config, WeightReader& reader,
                       DecoderWeights& weights) {
  if (config.ropes.empty()) return;
  const std::int32_t pairs = config.ropes.front().rotary_size / 2;
  for (const std::string& name : {names.rope_factors, names.rope_factors_short})
    if (!name.empty() && weights.rope_factors.empty())
      weights.rope_factors = reader.optional_vector(name, pairs);
  if (!names.rope_factors_long.empty())
    weights.rope_factors_long = reader.optional_vector(names.rope_factors_long, pairs);
}

// Refuses NVFP4 weights whose scale is among the tensors that the model does not use.
Status check_unused_scales(const ModelSource& source, const std::vector<std::string>& unused) {
  for (const std::string& name : unused) {
    constexpr std::string_view kScale = ".scale";
    if (!name.ends_with(kScale)) continue;
    const TensorView* const scaled = source.find(name.substr(0, name.size() - kScale.size()) + ".weight");
    if (scaled != nullptr && scaled->dtype == DType::nvfp4)
      return unimplemented(concat("the scale '", name, "' of NVFP4 weights is not supported there"));
  }
  return ok_status();
}

}  // namespace

Result<DecoderWeights> load_decoder_weights(const WeightOrder& order, WeightStore store) {
  const auto& [context, source, names, config, shard, dtype] = order;
  WeightLoader loader(context, source, names, shard.rank, dtype, store);
  WeightReader& reader = loader.reader();
  DecoderWeights weights;
  const std::string embedding = names.token_embedding + ".weight";
  const TensorView all_tokens = reader.matrix(embedding, config.vocab_size, config.embedding_size);
  if (!loader.status().ok()) return loader.status();
  load_embeddings(names, config, loader, weights);
  load_rope_factors(names, config, reader, weights);
  for (std::int32_t index = 0; index < config.num_layers() && loader.status().ok(); ++index)
    weights.layers.push_back(load_layer(config, shard, index, loader));
  if (config.layer_input && loader.status().ok()) weights.layer_inputs = LayerInputs::load(config, loader);
  if (config.streams && loader.status().ok()) weights.streams = ResidualStreams::load(config, loader);
  if (config.final_norm) {
    NormWeights norm = loader.norm(names.final_norm, config.hidden_size, *config.final_norm);
    // Folds the logits' scale into the final norm, since only the head reads its result.
    if (config.logit_scale != 1 && config.head)
      for (std::vector<float>* part : {&norm.weight, &norm.bias})
        for (float& value : *part) value *= config.logit_scale;
    weights.final_norm = loader.place(std::move(norm));
  }

  load_head(names, config, shard, loader, all_tokens, weights);
  // Keeps the stored type, on which the embedding's scale may depend.
  weights.token_embedding = with_rows(all_tokens, shard.own_vocab());
  weights.token_embedding.data = nullptr;
  if (!config.head || !config.tied_head || !weights.head.keeps_values())
    weights.token_embedding = loader.keep_rows(all_tokens, embedding, shard.own_vocab());
  if (!loader.status().ok()) return loader.status();
  link(weights);
  weights.packed_bytes = loader.packed_bytes();
  weights.owners = store.owners();
  weights.pieces = store.take_pieces();
  weights.mapped = store.is_mapped();
  weights.adapter_targets = loader.adapter_targets();
  weights.ignored_tensors = reader.unused();
  PAGODA_RETURN_IF_ERROR(check_unused_scales(source, weights.ignored_tensors));
  return weights;
}

}  // namespace pagoda
