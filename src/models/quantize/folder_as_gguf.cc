#include "models/quantize/folder_as_gguf.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "models/family.h"
#include "models/quantize/decoder_difference.h"
#include "models/quantize/folder_tensors.h"
#include "models/quantize/gguf_fields.h"
#include "models/read_config.h"
#include "models/weights/unused_tensors.h"

namespace pagoda {
namespace {

// A file's header, and address space without memory for its tensors, which are not written yet.
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

// Product factors are multiplied into the matrices: no file states them.
void drop_product_factors(DecoderConfig& decoder) {
  const auto of_attention = [](AttentionConfig& attention) {
    attention.query_factor = attention.key_factor = attention.value_factor = attention.output_factor =
        attention.input_factor = 1;
  };
  for (LayerConfig& layer : decoder.layers) {
    if (AttentionConfig* const attention = layer.attention()) of_attention(*attention);
    if (auto* const both = std::get_if<ParallelMixersConfig>(&layer.mixer)) {
      of_attention(both->attention);
      both->linear.in_factors = LinearAttentionConfig{}.in_factors;
      both->linear.input_factor = both->linear.out_factor = 1;
    }
    if (DenseFeedForwardConfig* const dense = layer.dense()) dense->gate_factor = dense->down_factor = 1;
  }
}

// Accepts a scale that the file derives from another number and that therefore differs only in its last bits.
void take_if_near(const DecoderConfig& made, DecoderConfig& wanted) {
  for (std::size_t i = 0; i < std::min(made.layers.size(), wanted.layers.size()); ++i) {
    const auto* const from = std::get_if<LatentAttentionConfig>(&made.layers[i].mixer);
    auto* const to = std::get_if<LatentAttentionConfig>(&wanted.layers[i].mixer);
    if (from != nullptr && to != nullptr && std::fabs(from->scale - to->scale) < 1e-6f * to->scale)
      to->scale = from->scale;
  }
}

class Conversion {
 public:
  Conversion(const ModelSource& folder, const ModelInfo& info, std::string_view architecture)
      : folder_(folder),
        info_(info),
        architecture_(architecture),
        from_(info.names(ModelFormat::hugging_face)) {}

  Result<GgufModel> convert() {
    const bool experts = std::ranges::any_of(
        info_.decoder.layers, [](const LayerConfig& layer) { return layer.mixture() != nullptr; });
    const Family* const family = find_gguf_family(architecture_, experts);
    if (family == nullptr) return refused("there are no such GGUF files with experts");
    ModelInfo file;
    file.family = family;
    file.own_gguf_names = info_.own_gguf_names;
    to_ = file.names(ModelFormat::gguf);
    traits_ = std::ranges::find(family->ggufs, architecture_, &FamilyGguf::name)->traits;
    PAGODA_RETURN_IF_ERROR(take_all());
    std::string why;
    for (const GgufScales scales :
         {GgufScales::left_out, GgufScales::logits_times, GgufScales::logits_divide, GgufScales::folded}) {
      if (scales == GgufScales::folded) {
        form_.scales_folded = true;
        PAGODA_RETURN_IF_ERROR(take_all());
      }
      for (const bool lists_windows : {false, true}) {
        set_metadata(scales, lists_windows);
        const Result<GgufForm> form = compare();
        if (!form && why.empty()) why = form.error().message();
        if (!form) continue;
        form_ = *form;
        PAGODA_RETURN_IF_ERROR(take_all());
        return std::move(out_);
      }
    }
    return refused(why);
  }

 private:
  template <class... Why>
  Status refused(const Why&... why) const {
    return unimplemented(concat("a folder of '", info_.type, "' cannot become a GGUF file of '",
                                architecture_, "': ", why...));
  }

  // Takes the tensors in the file's form.
  Status take_all() {
    FolderTensors tensors(folder_, info_, from_, to_, form_);
    has_head_ = add_tensors(tensors);
    if (tensors.status().code() == StatusCode::unimplemented) return refused(tensors.status().message());
    PAGODA_RETURN_IF_ERROR(tensors.status());
    const UnusedTensors unused = describe_unused(tensors.unused(), info_.decoder.num_layers());
    if (!unused.unknown.empty()) return refused("the file has no place for ", unused.unknown);
    out_.tensors = tensors.take_tensors();
    return ok_status();
  }

  void set_metadata(GgufScales scales, bool lists_windows) {
    out_.metadata = {text_entry("general.architecture", architecture_), text_entry("general.type", "model")};
    if (!info_.name.empty()) out_.metadata.push_back(text_entry("general.name", info_.name));
    std::ranges::move(gguf_fields(info_, {architecture_, traits_, to_, scales, lists_windows}),
                      std::back_inserter(out_.metadata));
  }

  // Compares the file's description with the folder's: returns the form that compensates for the differences.
  Result<GgufForm> compare() const {
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
    GgufForm form = form_;
    form.by_neighbours = made.interleaved_rows && !wanted.interleaved_rows;
    if (form.by_neighbours) wanted.interleaved_rows = true;
    const float offset = wanted.layers.front().norm.weight_offset;
    if (made.layers.front().norm.weight_offset == 0 && offset != 0) {
      form.norm_offset = offset;
      for (LayerConfig& layer : wanted.layers) layer.norm.weight_offset -= offset;
      if (wanted.final_norm) wanted.final_norm->weight_offset -= offset;
    }
    for (std::size_t i = 0; i < std::min(made.layers.size(), wanted.layers.size()); ++i) {
      const auto* const from = std::get_if<LinearAttentionConfig>(&made.layers[i].mixer);
      auto* const to = std::get_if<LinearAttentionConfig>(&wanted.layers[i].mixer);
      if (from == nullptr || to == nullptr || !from->tiled_heads || to->tiled_heads) continue;
      form.tiled_heads = to->tiled_heads = true;
    }
    if (form.scales_folded) wanted.embedding_scale = wanted.logit_scale = 1;
    wanted.position_offset = 0;                                 // earlier rows are not written
    if (is_encoder(wanted)) wanted.tied_head = made.tied_head;  // an encoder has no head
    drop_product_factors(wanted);
    take_if_near(made, wanted);
    if (wanted.tied_head) wanted.tied_head = !has_head_;
    for (RopeConfig& rope : wanted.ropes) {  // expressed as divisors, which are tensors
      if (rope.scaling == RopeScaling::llama3) rope = {.theta = rope.theta, .rotary_size = rope.rotary_size};
      rope.divisors.clear();
      rope.long_divisors.clear();
    }
    if (const std::string_view what = decoder_difference(wanted, made); !what.empty())
      return unimplemented(concat("GGUF files cannot express its ", what));
    return form;
  }

  const ModelSource& folder_;
  const ModelInfo& info_;
  const std::string architecture_;
  const WeightNames from_;
  WeightNames to_;
  GgufTraits traits_;
  GgufForm form_;
  GgufModel out_;
  bool has_head_ = false;
};

}  // namespace

Result<GgufModel> folder_as_gguf(const ModelSource& folder) {
  PAGODA_ASSIGN_OR_RETURN(const auto info, read_model_config(folder));
  std::vector<std::string_view> architectures;
  for (const FamilyGguf& gguf : info.family->ggufs) architectures.push_back(gguf.name);
  // Other families' files that a family's models can become, or files for some of its options.
  if (architectures.empty()) architectures = {"llama", "mamba", "granitehybrid", "deepseek2", "bert"};
  for (const std::string_view other : {"granite", "granitemoe", "gemma-embedding"})
    if (std::ranges::find(architectures, other) == architectures.end()) architectures.push_back(other);
  Result<GgufModel> first = unimplemented("");
  for (const std::string_view architecture : architectures) {
    Result<GgufModel> made = Conversion(folder, info, architecture).convert();
    if (made || architecture == architectures.front()) first = std::move(made);
    if (first) break;
  }
  if (!first && info.family->ggufs.empty() && first.error().code() == StatusCode::unimplemented)
    return unimplemented(concat("a folder of '", info.type,
                                "' cannot become a GGUF file: its family has no such files, and other "
                                "families' cannot say what it computes"));
  return first;
}

}  // namespace pagoda
