// Any bytes as a model's folder: the text before the first zero byte is config.json, the rest the weights.
// What loads has run no step: families' readers, the checks of tensors and packing are what is fuzzed here.
// links: models kernels loader
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "loader/hf_source.h"
#include "models/decoder/decoder.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

class BytesSource final : public ModelSource {
 public:
  BytesSource(std::string_view config, ReadableTensors readable)
      : config_(config), readable_(std::move(readable)) {}

  ModelFormat format() const override { return ModelFormat::hugging_face; }
  std::string_view config_json() const override { return config_; }
  const TensorView* find(std::string_view name) const override {
    const auto found = readable_.tensors.find(name);
    return found == readable_.tensors.end() ? nullptr : &found->second;
  }
  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : readable_.tensors) names.emplace_back(name);
    return names;
  }
  const std::string& path() const override { return path_; }
  LinearArithmetic inputs_of(const TensorView& tensor) const override {
    return readable_.quantized->inputs_of(tensor);
  }
  Status bring_in(const TensorView& tensor, ThreadPool* pool) const override {
    return readable_.quantized->bring_in(tensor, pool);
  }
  void give_back(const TensorView& tensor) const override { (void)readable_.quantized->give_back(tensor); }

 private:
  std::string_view config_;
  ReadableTensors readable_;
  std::string path_ = "folder";
};

// Nothing in the files bounds tables by position, or a vocabulary whose tensor fails its check only later.
bool is_small(const DecoderConfig& config) {
  return config.num_layers() <= 8 && config.vocab_size <= 4096 && config.hidden_size <= 1024;
}

}  // namespace
}  // namespace pagoda

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pagoda;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::size_t end = text.find('\0');
  if (end == text.npos) return 0;
  const std::string_view config = text.substr(0, end);
  const Result<ModelInfo> model = read_config_json(config, {});
  if (!model || !is_small(model->decoder)) return 0;
  const auto how = read_quantization_files(config, {});
  if (!how) return 0;
  const auto file = SafetensorsFile::parse(std::as_bytes(std::span(data, size)).subspan(end + 1));
  if (!file) return 0;
  StoredTensors stored;
  for (const FileTensor& tensor : file->tensor_list()) stored.emplace(tensor.name, tensor);
  auto readable = readable_tensors(*how, stored);
  if (!readable) return 0;
  const BytesSource source(config, *std::move(readable));
  const Status tensors = DecoderModel::check_tensors(source);
  const auto loaded = DecoderModel::load({}, source, *model, "auto", 4);
  if (!loaded && loaded.error().message().find('\n') != std::string::npos) std::abort();
  // check_tensors() finds what load() finds.
  if (loaded && !tensors.ok()) std::abort();
  return 0;
}
