#include "models/folder_as_gguf.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/printable.h"
#include "models/decoder_difference.h"
#include "models/family.h"
#include "models/gguf_fields.h"
#include "models/read_config.h"
#include "models/unused_tensors.h"
#include "models/weight_parts.h"
#include "models/weight_reader.h"

namespace pagoda {
namespace {

constexpr std::string_view kWeight = ".weight", kBias = ".bias";

constexpr WeightName kWholeTensors[] = {&WeightNames::token_embedding, &WeightNames::position_embedding,
                                        &WeightNames::type_embedding, &WeightNames::project_in,
                                        &WeightNames::project_out};
constexpr WeightName kWholeNorms[] = {&WeightNames::embedding_norm, &WeightNames::final_norm};
constexpr WeightName kOfLayer[] = {&WeightNames::query,         &WeightNames::key,
                                   &WeightNames::value,         &WeightNames::fused_qkv,
                                   &WeightNames::gate,          &WeightNames::attention_output,
                                   &WeightNames::fused_gate_up, &WeightNames::up,
                                   &WeightNames::down,          &WeightNames::output_gate};
constexpr WeightName kNormsOfLayer[] = {&WeightNames::attention_norm, &WeightNames::attention_branch_norm,
                                        &WeightNames::mlp_norm,       &WeightNames::mlp_branch_norm,
                                        &WeightNames::query_norm,     &WeightNames::key_norm};

// Layers with states have these.
constexpr std::string LinearAttentionNames::* kOfStates[] = {
    &LinearAttentionNames::in,       &LinearAttentionNames::scanned,    &LinearAttentionNames::step,
    &LinearAttentionNames::key_norm, &LinearAttentionNames::query_norm, &LinearAttentionNames::step_norm,
    &LinearAttentionNames::out};

// Those of one tensor for each layer; an expert's own matrices are stacked.
constexpr ExpertName kOfMixture[] = {&ExpertNames::router, &ExpertNames::shared_gate, &ExpertNames::shared_up,
                                     &ExpertNames::shared_down, &ExpertNames::shared_router};
constexpr ExpertName kStacked[] = {&ExpertNames::gate, &ExpertNames::up, &ExpertNames::down};

// The differences that the file's tensors make up for.
struct Difference {
  float norm_offset = 0;       // to be added to the weights of norms
  bool by_neighbours = false;  // the file's rows are in the order of a rotation of neighbours
};

// The bytes of a file whose tensors are not written yet: addresses without memory.
class Outline {
 public:
  Outline(const std::string& head, std::span<const GgufTensorEntry> tensors, std::int64_t alignment)
      : size_(head.size()) {
    for (const GgufTensorEntry& tensor : tensors)
      size_ += static_cast<std::size_t>(tensor.bytes() + alignment);
    data_ =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ != MAP_FAILED) std::ranges::copy(head, static_cast<char*>(data_));
  }
  ~Outline() {
    if (data_ != MAP_FAILED) ::munmap(data_, size_);
  }
  Outline(const Outline&) = delete;
  Outline& operator=(const Outline&) = delete;
  std::span<const std::byte> bytes() const {
    if (data_ == MAP_FAILED) return {};
    return {static_cast<const std::byte*>(data_), size_};
  }

 private:
  std::size_t size_;
  void* data_;
};

class Conversion {
 public:
  Conversion(const ModelSource& folder, const ModelInfo& info, std::string_view architecture)
      : folder_(folder),
        info_(info),
        architecture_(architecture),
        from_(info.names(ModelFormat::hugging_face)),
        reader_(folder, from_.prefix, from_.other_prefixes) {}

  Result<GgufModel> convert() {
    const bool experts = std::ranges::any_of(
        info_.decoder.layers, [](const LayerConfig& layer) { return layer.mixture() != nullptr; });
    const Family* const family = find_gguf_family(architecture_, experts);
    if (family == nullptr) return refused("there are no such GGUF files with experts");
    ModelInfo file;
    file.family = family;
    to_ = file.names(ModelFormat::gguf);
    to_.fused_gate_up = to_.up;  // which has both in such files
    if (from_.transposed != to_.transposed) return refused("its matrices are stored [in, out]");
    if (from_.qkv_by_group != to_.qkv_by_group)
      return refused("its queries, keys and values are interleaved");
    add_all();
    PAGODA_RETURN_IF_ERROR(failure_);
    const UnusedTensors unused = describe_unused(reader_.unused(), info_.decoder.num_layers());
    if (!unused.unknown.empty()) return refused("the file has no place for ", unused.unknown);
    std::string why;
    for (const GgufScales scales :
         {GgufScales::left_out, GgufScales::logits_times, GgufScales::logits_divide}) {
      set_metadata(scales);
      const Result<Difference> difference = compare();
      if (!difference) {
        if (why.empty()) why = difference.error().message();
        continue;
      }
      transform(*difference);
      PAGODA_RETURN_IF_ERROR(failure_);
      return std::move(out_);
    }
    return refused(why);
  }

 private:
  template <class... Why>
  Status refused(const Why&... why) const {
    return unimplemented(concat("a folder of '", info_.type, "' cannot become a GGUF file of '",
                                architecture_, "': ", why...));
  }
  void fail(Status status) {
    if (failure_.ok()) failure_ = std::move(status);
  }

  // Null: it is not there, or was taken under another part's name.
  const TensorView* take(const std::string& name) {
    const TensorView* const tensor = reader_.find(name);
    if (tensor == nullptr || !taken_.insert(name).second) return nullptr;
    reader_.ignore(name);
    return tensor;
  }
  void add(std::string name, std::vector<std::int64_t> shape, std::vector<TensorView> parts) {
    out_.tensors.push_back({.name = std::move(name), .shape = std::move(shape), .parts = std::move(parts)});
  }
  void add_values(std::string name, std::vector<float> values, std::vector<std::int64_t> shape = {}) {
    if (values.empty()) return;
    const auto own = std::make_shared<const std::vector<float>>(std::move(values));
    if (shape.empty()) shape = {static_cast<std::int64_t>(own->size())};
    add(std::move(name), shape, {{DType::f32, shape, reinterpret_cast<const std::byte*>(own->data())}});
    out_.tensors.back().own = own;
  }
  // The values of a tensor where it is there, in another shape.
  void add_shaped(const std::string& from, std::string to, std::vector<std::int64_t> shape) {
    const TensorView* const tensor = take(from);
    if (tensor == nullptr) return;
    if (tensor->elements() != TensorView{tensor->dtype, shape, nullptr}.elements())
      return fail(refused("tensor '", printable(from), "' has another size than its config.json says"));
    add(std::move(to), std::move(shape), {*tensor});
  }
  // A module of one tensor, and its bias, where the folder has them. Returns whether it has.
  bool add_module(const std::string& from, const std::string& to) {
    if (from.empty() || is_numbered(from)) return false;
    bool any = false;
    for (const std::string_view end : {kWeight, kBias}) {
      const TensorView* const tensor = take(concat(from, end));
      if (tensor == nullptr) continue;
      any = true;
      if (to.empty() || to.ends_with('.'))
        fail(refused("the file has no place for '", printable(from), "'"));
      else
        add(concat(to, end), tensor->shape, {*tensor});
    }
    return any;
  }

  void add_all() {
    for (const WeightName name : kWholeTensors) add_module(from_.*name, to_.*name);
    for (const WeightName name : kWholeNorms) add_module(from_.*name, to_.*name);
    add_head();
    const RopeDivisors divisors = rope_divisors(info_.decoder);
    add_values(to_.rope_factors, divisors.all);
    add_values(to_.rope_factors_short, divisors.short_contexts);
    add_values(to_.rope_factors_long, divisors.long_contexts);
    for (std::int32_t index = 0; index < info_.decoder.num_layers(); ++index) add_layer(index);
  }

  void add_head() {
    const TensorView* const embedding = reader_.find(from_.token_embedding + ".weight");
    for (const std::string& name : {from_.head, from_.other_head}) {
      const TensorView* const head = name.empty() ? nullptr : reader_.find(name + ".weight");
      if (head == nullptr) continue;
      if (info_.decoder.tied_head && embedding != nullptr && is_same(*embedding, *head))
        reader_.ignore(name + ".weight");
      else
        has_head_ = add_module(name, to_.head);
      return;
    }
  }

  bool is_same(const TensorView& a, const TensorView& b) {
    if (a.dtype != b.dtype || a.shape != b.shape) return false;
    for (const TensorView* each : {&a, &b})
      if (Status read = folder_.bring_in(*each); !read.ok()) fail(std::move(read));
    const bool same = failure_.ok() && std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes())) == 0;
    for (const TensorView* each : {&a, &b}) folder_.give_back(*each);
    return same;
  }

  void add_layer(std::int32_t index) {
    const std::string from = from_.layer_prefix(index), to = to_.layer_prefix(index);
    const auto each = [&](const std::string& own, const std::string& other) {
      if (!own.empty()) add_module(from + own, other.empty() ? "" : to + other);
    };
    for (const WeightName name : kNormsOfLayer) each(from_.*name, to_.*name);
    for (const WeightName name : kOfLayer) each(from_.*name, to_.*name);
    if (!from_.sinks.empty())
      if (const TensorView* const sinks = take(from + from_.sinks))
        add(to + to_.sinks, sinks->shape, {*sinks});
    const LayerConfig& layer = info_.decoder.layers[static_cast<std::size_t>(index)];
    const std::string fused = from + from_.fused_gate_up + std::string(kWeight);
    if (layer.attention() == nullptr && !from_.fused_gate_up.empty() && reader_.has(fused))
      fail(refused("'", printable(fused), "' has two matrices"));  // which such files have apart
    if (const auto* const scan = std::get_if<SelectiveScanConfig>(&layer.mixer))
      add_states({scan->num_channels}, {scan->num_channels, scan->state_size}, *scan, from, to);
    if (const auto* const heads = std::get_if<LinearAttentionConfig>(&layer.mixer)) {
      if (heads->delta_rule) return fail(refused("it has layers of a delta net"));
      const std::int64_t groups = std::max(1, heads->norm_groups);
      add_shaped(from + from_.linear_attention.norm + std::string(kWeight),
                 to + to_.linear_attention.norm + std::string(kWeight),
                 {groups, heads->value_width() / groups});
      add_states({heads->num_heads, 1}, {heads->num_heads, 1}, *heads, from, to);
    }
    const MixtureConfig* const mixture = layer.mixture();
    if (mixture != nullptr && !to_.experts.empty()) add_mixture(*mixture, from, to);
  }

  // Layers with states, but for norms of groups. Folders keep the logarithms of what their rates take away,
  // and a convolution with an axis of one input.
  template <class States>
  void add_states(const std::vector<std::int64_t>& skips, const std::vector<std::int64_t>& rates,
                  const States& states, const std::string& from, const std::string& to) {
    const LinearAttentionNames &own = from_.linear_attention, &other = to_.linear_attention;
    for (const auto name : kOfStates)
      if (!(own.*name).empty()) add_module(from + own.*name, to + other.*name);
    std::int64_t channels = 0;
    if constexpr (requires { states.num_channels(); })
      channels = states.num_channels();
    else
      channels = states.num_channels;
    const std::string conv = from + from_.conv, conv_to = to + to_.conv;
    add_shaped(conv + std::string(kWeight), conv_to + std::string(kWeight), {channels, states.num_taps});
    add_shaped(conv + std::string(kBias), conv_to + std::string(kBias), {channels});
    add_shaped(from + own.skip, to + other.skip, skips);
    if (!own.step_bias.empty()) add_shaped(from + own.step_bias, to + other.step_bias, {skips.front()});
    if (take(from + own.rate) == nullptr) return;
    std::vector<float> values = reader_.values(from + own.rate, rates.front() * rates.back());
    for (float& value : values) value = own.rate_is_log ? -std::exp(value) : value;
    add_values(to + other.rate, std::move(values), rates);
  }

  void add_mixture(const MixtureConfig& mixture, const std::string& from, const std::string& to) {
    const ExpertNames& other = to_.experts.front();
    for (const ExpertNames& form : from_.experts) {
      const std::string down = from + numbered(form.down, 0) + form.weight;
      if (form.down.empty() || reader_.find(down) == nullptr) continue;
      if (form.transposed || form.interleaved || form.joined || form.down_transposed)
        return fail(refused("its experts are stored as '", printable(down), "'"));
      for (const ExpertName name : kOfMixture)
        if (!(form.*name).empty()) add_module(from + form.*name, to + other.*name);
      if (!form.correction.empty())
        if (const TensorView* const values = take(from + form.correction))
          add(to + other.correction, values->shape, {*values});
      for (const ExpertName name : kStacked)
        if (!(form.*name).empty() && reader_.has(from + numbered(form.*name, 0) + form.weight))
          add_stacked(mixture, from + form.*name + form.weight, to + other.*name);
      if (!form.gate_up.empty()) add_halves(from + form.gate_up + form.weight, to, other);
      return;
    }
  }

  // [experts, rows, columns] of a matrix each, or of one of all.
  void add_stacked(const MixtureConfig& mixture, const std::string& from, const std::string& to) {
    std::vector<TensorView> parts;
    const std::int64_t count = is_numbered(from) ? mixture.routing.num_experts : 1;
    for (std::int64_t expert = 0; expert < count; ++expert) {
      const TensorView* const part = take(numbered(from, expert));
      if (part == nullptr || (expert > 0 && part->shape != parts.front().shape))
        return fail(refused("tensor '", printable(numbered(from, expert)),
                            "' is missing, or has another shape than the first expert's"));
      parts.push_back(*part);
    }
    std::vector<std::int64_t> shape = parts.front().shape;
    if (count > 1 || shape.size() == 2) shape.insert(shape.begin(), count);
    add(to + std::string(kWeight), std::move(shape), std::move(parts));
  }

  // Each expert's gate above its up.
  void add_halves(const std::string& from, const std::string& to, const ExpertNames& other) {
    const TensorView* const all = take(from);
    if (all == nullptr || all->shape.size() != 3 || all->shape[1] % 2 != 0)
      return fail(refused("tensor '", printable(from), "' is missing, or no matrix for each expert"));
    const std::int64_t experts = all->shape[0], half = all->shape[1] / 2, columns = all->shape[2];
    const std::int64_t bytes = dtype_bytes(all->dtype, half * columns);
    for (const std::int64_t which : {0, 1}) {
      std::vector<TensorView> parts;
      for (std::int64_t expert = 0; expert < experts; ++expert)
        parts.push_back({all->dtype, {half, columns}, all->data + (2 * expert + which) * bytes});
      add(to + (which == 0 ? other.gate : other.up) + std::string(kWeight), {experts, half, columns},
          std::move(parts));
    }
  }

  void set_metadata(GgufScales scales) {
    out_.metadata = {text_entry("general.architecture", architecture_), text_entry("general.type", "model")};
    if (!info_.name.empty()) out_.metadata.push_back(text_entry("general.name", info_.name));
    std::ranges::move(gguf_fields(info_, architecture_, scales), std::back_inserter(out_.metadata));
  }

  // The file's description beside the folder's.
  Result<Difference> compare() const {
    std::vector<GgufTensorEntry> entries;
    for (const GgufRows& tensor : out_.tensors)
      entries.push_back({.name = tensor.name, .shape = tensor.shape, .dtype = DType::f32});
    const Outline outline(gguf_head(out_.metadata, entries, out_.alignment), entries, out_.alignment);
    if (outline.bytes().empty()) return resource_exhausted("no addresses for the outline of a GGUF file");
    PAGODA_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::parse(outline.bytes()));
    PAGODA_ASSIGN_OR_RETURN(const ModelInfo read, read_gguf_config(file));
    if (!read.unknown_options.empty())
      return unimplemented(concat("such files have no '", read.unknown_options.front(), "'"));
    const DecoderConfig& made = read.decoder;
    DecoderConfig wanted = info_.decoder;
    Difference out;
    out.by_neighbours = made.interleaved_rows && !wanted.interleaved_rows;
    if (out.by_neighbours) wanted.interleaved_rows = true;
    const float offset = wanted.layers.front().norm.weight_offset;
    if (made.layers.front().norm.weight_offset == 0 && offset != 0) {
      out.norm_offset = offset;
      for (LayerConfig& layer : wanted.layers) layer.norm.weight_offset -= offset;
      if (wanted.final_norm) wanted.final_norm->weight_offset -= offset;
    }
    if (wanted.tied_head) wanted.tied_head = !has_head_;
    for (RopeConfig& rope : wanted.ropes) {  // by divisors, which are tensors
      if (rope.scaling == RopeScaling::llama3) rope = {.theta = rope.theta, .rotary_size = rope.rotary_size};
      rope.divisors.clear();
      rope.long_divisors.clear();
    }
    if (const std::string_view what = decoder_difference(wanted, made); !what.empty())
      return unimplemented(concat("GGUF files cannot express its ", what));
    return out;
  }

  bool is_one_of(const GgufRows& tensor, std::string_view module) const {
    return !module.empty() && (tensor.name.ends_with(concat(".", module, kWeight)) ||
                               tensor.name.ends_with(concat(".", module, kBias)));
  }
  void transform(const Difference& difference) {
    for (GgufRows& tensor : out_.tensors) {
      if (difference.norm_offset != 0) {
        const auto is_norm = [&](WeightName name) {
          return tensor.name.ends_with(kWeight) &&
                 (is_one_of(tensor, to_.*name) || tensor.name == concat(to_.*name, kWeight));
        };
        if (std::ranges::any_of(kNormsOfLayer, is_norm) || std::ranges::any_of(kWholeNorms, is_norm))
          tensor.offset = difference.norm_offset;
      }
      if (!difference.by_neighbours) continue;
      if (is_one_of(tensor, to_.fused_qkv)) fail(refused("queries, keys and values are one matrix"));
      if (!is_one_of(tensor, to_.query) && !is_one_of(tensor, to_.key)) continue;
      const auto with_attention = std::ranges::find_if(
          info_.decoder.layers, [](const LayerConfig& layer) { return layer.attention() != nullptr; });
      tensor.head_size = with_attention->attention()->head_size;
      tensor.rotary_size = info_.decoder.ropes.front().rotary_size;
    }
  }

  const ModelSource& folder_;
  const ModelInfo& info_;
  const std::string architecture_;
  const WeightNames from_;
  WeightNames to_;
  WeightReader reader_;
  GgufModel out_;
  std::set<std::string> taken_;
  bool has_head_ = false;
  Status failure_;
};

}  // namespace

Result<GgufModel> folder_as_gguf(const ModelSource& folder) {
  PAGODA_ASSIGN_OR_RETURN(const auto info, read_model_config(folder));
  if (is_encoder(info.decoder) || info.decoder.layers.empty())
    return unimplemented(concat("a folder of '", info.type, "' cannot become a GGUF file: it makes vectors"));
  std::vector<std::string_view> architectures;
  for (const FamilyGguf& gguf : info.family->ggufs) architectures.push_back(gguf.name);
  // Others' files that a family's models can become.
  if (architectures.empty()) architectures = {"llama", "mamba", "granitehybrid"};
  Result<GgufModel> first = unimplemented("");
  for (const std::string_view architecture : architectures) {
    Result<GgufModel> made = Conversion(folder, info, architecture).convert();
    if (made || architecture == architectures.front()) first = std::move(made);
    if (first) break;
  }
  return first;
}

}  // namespace pagoda
