#include "models/quantize/folder_tensors.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "loader/printable.h"
#include "models/quantize/gguf_fields.h"

namespace pagoda {
namespace {

constexpr WeightName kWholeTensors[] = {&WeightNames::type_embedding, &WeightNames::project_in,
                                        &WeightNames::project_out};
constexpr WeightName kWholeNorms[] = {&WeightNames::embedding_norm, &WeightNames::final_norm};
constexpr WeightName kLayerNorms[] = {&WeightNames::attention_norm, &WeightNames::attention_branch_norm,
                                      &WeightNames::mlp_norm,       &WeightNames::mlp_branch_norm,
                                      &WeightNames::query_norm,     &WeightNames::key_norm,
                                      &WeightNames::query_a_norm,   &WeightNames::kv_a_norm};

// Merges contiguous runs.
std::vector<RowRun> joined_runs(std::span<const RowRun> runs, std::int64_t rows) {
  std::vector<RowRun> joined;
  for (RowRun run : runs) {
    if (run.count < 0) run.count = rows - run.first;
    if (run.count == 0) continue;
    RowRun* const last = joined.empty() ? nullptr : &joined.back();
    if (last != nullptr && last->first + last->count == run.first && last->factor == run.factor)
      last->count += run.count;
    else
      joined.push_back(run);
  }
  return joined;
}

// Joins a tensor per head into one.
void add_norms_of_heads(const std::string& from, const std::string& to, FolderTensors& out) {
  GgufRows all = {.name = to, .offset = out.form.norm_offset};
  for (const TensorView* one = nullptr; (one = out.take(numbered(from, std::ssize(all.parts)))) != nullptr;) {
    if (!all.parts.empty() && one->shape != all.parts.front().stored.shape)
      return out.refuse("'", printable(to), "' has heads of several sizes there");
    all.parts.push_back({.stored = *one});
  }
  if (all.parts.empty()) return;
  if (to.empty()) return out.refuse("the file has no place for '", printable(from), "'");
  if (out.form.by_neighbours) return out.refuse("'", printable(to), "' has a norm for each head");
  all.shape = all.parts.front().stored.shape;
  all.shape.insert(all.shape.begin(), std::ssize(all.parts));
  out.add(std::move(all));
}

void add_norm(const std::string& from, const std::string& to, FolderTensors& out, bool bare = false) {
  if (from.empty()) return;
  const auto with = [&](std::string_view end) { return to.empty() ? to : concat(to, end); };
  if (is_numbered(from)) return add_norms_of_heads(from + ".weight", with(".weight"), out);
  out.add_whole(from + ".weight", bare ? to : with(".weight"), {.offset = out.form.norm_offset});
  out.add_whole(from + ".bias", with(".bias"));
}

// Returns true if the file has a separate head.
bool add_head(FolderTensors& out) {
  const WeightNames &from = out.from, &to = out.to;
  const DecoderConfig& decoder = out.info.decoder;
  const std::string of_embedding = from.token_embedding + ".weight";
  const TensorView* const embedding = out.find(of_embedding);
  const RowChange change = out.form.scales_folded ? times(decoder.logit_scale) : RowChange{};
  for (const std::string& name : {from.head, from.other_head}) {
    const TensorView* const head = name.empty() ? nullptr : out.find(name + ".weight");
    if (head == nullptr) continue;
    if (!decoder.tied_head || embedding == nullptr || !out.is_same(*embedding, *head))
      return out.add_module(name, to.head, change);
    out.ignore(name + ".weight");
    break;
  }
  if (!out.form.scales_folded || !decoder.tied_head || embedding == nullptr) return false;
  out.add_rows(*embedding, to.head + ".weight", change);
  return true;
}

// Ignores encoders' pretraining heads; a classifier head is refused.
void leave_other_heads(FolderTensors& out) {
  for (const std::string& name : out.from.of_other_heads) {
    if (out.has(name) && name.find("classifier") != name.npos)
      out.refuse("the head that scores ('", printable(name), "') is not written");
    out.ignore(name);
  }
}

}  // namespace

const TensorView* FolderTensors::take(const std::string& name) {
  const TensorView* const tensor = reader_.find(name);
  if (tensor == nullptr || !taken_.insert(name).second) return nullptr;
  reader_.ignore(name);
  return tensor;
}

bool FolderTensors::is_same(const TensorView& a, const TensorView& b) {
  if (a.dtype != b.dtype || a.shape != b.shape) return false;
  for (const TensorView* each : {&a, &b})
    if (Status read = folder_.bring_in(*each); !read.ok()) fail(std::move(read));
  const bool same = status_.ok() && std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes())) == 0;
  for (const TensorView* each : {&a, &b}) folder_.give_back(*each);
  return same;
}

void FolderTensors::add_values(std::string to_name, std::vector<float> values,
                               std::vector<std::int64_t> shape) {
  if (values.empty()) return;
  const auto own = std::make_shared<const std::vector<float>>(std::move(values));
  if (shape.empty()) shape = {std::ssize(*own)};
  add({.name = std::move(to_name),
       .shape = shape,
       .parts = {{.stored = {DType::f32, shape, reinterpret_cast<const std::byte*>(own->data())}}},
       .own = own});
}

void FolderTensors::add_rows(const TensorView& stored, std::string to_name, const RowChange& change) {
  TensorView whole = stored;
  if (!change.weight_shape.empty()) whole.shape = change.weight_shape;
  if (whole.elements() != stored.elements())
    return refuse("'", printable(to_name), "' has another size there than its config.json says");
  GgufRows tensor = {.name = std::move(to_name),
                     .shape = whole.shape,
                     .head_size = change.head_size,
                     .rotary_begin = change.rotary_begin,
                     .rotary_size = change.rotary_size,
                     .offset = change.offset,
                     .column_blocks = change.column_blocks};
  if (change.transposed) {
    std::swap(tensor.shape.front(), tensor.shape.back());
    if (tensor.shape.size() != 2 || change.rows.size() > 1 || change.rotary_size > 0)
      return refuse("the matrix '", printable(tensor.name), "' is stored [in, out]");
    const float factor = change.rows.empty() ? 1 : change.rows.front().factor;
    tensor.parts = {{.stored = std::move(whole), .factor = factor, .transposed = true}};
    return add(std::move(tensor));
  }
  static constexpr RowRun kAll[] = {{}};
  const std::span<const RowRun> asked = change.rows.empty() ? kAll : std::span<const RowRun>(change.rows);
  const std::int64_t rows = whole.rows(), row_bytes = rows == 0 ? 0 : whole.bytes() / rows;
  tensor.shape.front() = 0;
  for (const RowRun& run : joined_runs(asked, rows)) {
    if (run.first + run.count > rows)
      return refuse("'", printable(tensor.name), "' has fewer rows there than its config.json says");
    TensorView part = {whole.dtype, whole.shape, whole.data + run.first * row_bytes};
    part.shape.front() = run.count;
    tensor.parts.push_back({.stored = std::move(part), .factor = run.factor});
    tensor.shape.front() += run.count;
  }
  add(std::move(tensor));
}

void FolderTensors::add_whole(const std::string& from_name, const std::string& to_name,
                              const RowChange& change) {
  if (from_name.empty() || is_numbered(from_name)) return;
  const TensorView* const tensor = take(from_name);
  if (tensor == nullptr) return;
  if (to_name.empty() || to_name.ends_with('.'))
    return refuse("the file has no place for '", printable(from_name), "'");
  add_rows(*tensor, to_name, change);
}

bool FolderTensors::add_module(const std::string& from_name, const std::string& to_name,
                               const RowChange& change) {
  if (from_name.empty()) return false;
  const auto with = [&](std::string_view end) { return to_name.empty() ? to_name : concat(to_name, end); };
  const bool any = has(from_name + ".weight") || has(from_name + ".bias");
  add_whole(from_name + ".weight", with(".weight"), change);
  RowChange of_bias = change;
  of_bias.column_blocks.clear();
  of_bias.weight_shape.clear();
  of_bias.transposed = false;
  for (RowRun& run : of_bias.rows) run.factor /= change.input_factor;
  add_whole(from_name + ".bias", with(".bias"), of_bias);
  return any;
}

bool add_tensors(FolderTensors& out) {
  const WeightNames &from = out.from, &to = out.to;
  const DecoderConfig& decoder = out.info.decoder;
  out.add_module(from.token_embedding, to.token_embedding,
                 out.form.scales_folded ? times(decoder.embedding_scale) : RowChange{});
  for (const WeightName name : kWholeTensors) out.add_module(from.*name, to.*name);
  out.add_module(from.position_embedding, to.position_embedding,
                 {.rows = {{.first = decoder.position_offset}}});
  for (const WeightName name : kWholeNorms) add_norm(from.*name, to.*name, out);
  const bool has_head = add_head(out);
  if (is_encoder(decoder)) leave_other_heads(out);
  const RopeDivisors divisors = rope_divisors(decoder);
  out.add_values(to.rope_factors, divisors.all);
  out.add_values(to.rope_factors_short, divisors.short_contexts);
  out.add_values(to.rope_factors_long, divisors.long_contexts);
  for (std::int32_t index = 0; index < decoder.num_layers(); ++index) {
    const LayerNames names = {from.layer_prefix(index), to.layer_prefix(index)};
    const LayerConfig& layer = decoder.layers[static_cast<std::size_t>(index)];
    for (const WeightName name : kLayerNorms)
      if (!(from.*name).empty())
        add_norm(names.from + from.*name, (to.*name).empty() ? "" : names.to + to.*name, out,
                 to.bare_mlp_norm && name == &WeightNames::mlp_norm);
    add_mixer(layer, names, out);
    add_feed_forward(layer, names, out);
  }
  return has_head;
}

}  // namespace pagoda
