#include "loader/model_source.h"

#include <map>
#include <utility>

#include "base/strings.h"
#include "loader/gguf_config.h"
#include "loader/hf_source.h"
#include "loader/model_files.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

class GgufSource final : public ModelSource {
 public:
  GgufSource(GgufFile file, ModelConfig config, std::string path)
      : file_(std::move(file)), config_(std::move(config)), path_(std::move(path)) {}

  ModelFormat format() const override { return ModelFormat::gguf; }
  const ModelConfig& config() const override { return config_; }
  const TensorView* find(std::string_view name) const override {
    const auto tensor = file_.tensors().find(name);
    return tensor == file_.tensors().end() ? nullptr : &tensor->second;
  }
  std::vector<std::string> tensor_names() const override {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : file_.tensors()) names.push_back(name);
    return names;
  }
  const GgufFile* gguf() const override { return &file_; }
  const std::string& path() const override { return path_; }
  std::string identity() const override {
    const MappedFile& file = *file_.file();
    return concat("gguf ", file.identity(header_bytes(file, file_.tensor_list())));
  }
  bool unchanged() const override { return file_.file()->unchanged(); }
  void give_back(const TensorView& tensor) const override {
    file_.file()->give_back({tensor.data, static_cast<std::size_t>(tensor.bytes())});
  }

 private:
  GgufFile file_;
  ModelConfig config_;
  std::string path_;
};

Result<std::unique_ptr<ModelSource>> open_gguf(const ModelFiles& files) {
  Result<GgufFile> file = GgufFile::open(files.path);
  if (!file) return file.error();
  Result<ModelConfig> config = gguf_config(*file);
  if (!config) return config.error().annotate(printable(files.path));
  if (const Status status = file->check_supported(); !status.ok())
    return status.annotate(printable(files.path));
  if (config->name.empty()) config->name = files.name;
  return std::unique_ptr<ModelSource>(
      std::make_unique<GgufSource>(std::move(*file), std::move(*config), files.path));
}

}  // namespace

Result<std::unique_ptr<ModelSource>> ModelSource::open(const std::string& model, const HubPaths& hub) {
  const Result<ModelFiles> files = find_model_files(model, hub);
  if (!files) return files.error();
  return files->format == ModelFormat::gguf ? open_gguf(*files) : open_hugging_face(*files);
}

}  // namespace pagoda
