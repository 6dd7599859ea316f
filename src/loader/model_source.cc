#include "loader/model_source.h"

#include <utility>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "loader/file_source.h"
#include "loader/gguf_overrides.h"
#include "loader/hf_source.h"
#include "loader/json_overrides.h"
#include "loader/model_files.h"
#include "loader/printable.h"
#include "loader/weight_types.h"

namespace pagoda {
namespace {

class GgufSource final : public FileSource {
 public:
  // `whole` has the tensors of all parts; `parts` are the files, at least one.
  GgufSource(GgufFile whole, std::vector<TensorFile> parts, std::string name, std::string path)
      : FileSource(std::move(path), std::move(parts), whole.tensors()),
        whole_(std::move(whole)),
        name_(std::move(name)) {}

  ModelFormat format() const override { return ModelFormat::gguf; }
  std::string name() const override {
    const std::string* const own = whole_.string("general.name");
    return own != nullptr && !own->empty() ? *own : name_;
  }
  std::string weight_type() const override { return describe_types(whole_); }
  const GgufFile* gguf() const override { return &whole_; }
  std::string identity() const override { return concat("gguf", identities(" ")); }

 private:
  GgufFile whole_;
  std::string name_;  // prefix of error messages
};

// Opens the other parts of a split model and adds their tensors.
Status add_parts(const std::string& path, std::int64_t count, GgufFile& whole,
                 std::vector<TensorFile>& parts) {
  const std::vector<std::string> paths = gguf_part_paths(path, count);
  if (paths.empty()) {
    return invalid_argument(concat("'", printable(path), "' is part ",
                                   whole.integer("split.no").value_or(-1) + 1, " of ", count,
                                   " of a model, which is read from its first part, NAME",
                                   gguf_part_path("", 1, count), ", with the others beside it"));
  }
  for (std::size_t i = 1; i < paths.size(); ++i) {
    Result<GgufFile> part = GgufFile::open(paths[i]);
    if (!part) return part.error().annotate(concat("part ", i + 1, " of ", count, " of the model"));
    if (part->integer("split.no").value_or(-1) != static_cast<std::int64_t>(i) ||
        part->integer("split.count").value_or(0) != count)
      return corrupt_data(concat("'", printable(paths[i]), "' is not part ", i + 1, " of ", count));
    if (const Status status = part->check_supported(); !status.ok())
      return status.annotate(printable(paths[i]));
    PAGODA_RETURN_IF_ERROR(whole.add_part(*part));
    parts.push_back(*std::move(part));
  }
  const std::int64_t tensors = whole.integer("split.tensors.count").value_or(-1);
  if (tensors >= 0 && tensors != static_cast<std::int64_t>(whole.tensor_list().size()))
    return corrupt_data(
        concat("the model's parts have ", whole.tensor_list().size(), " tensors, not ", tensors));
  return ok_status();
}

Result<std::unique_ptr<ModelSource>> open_gguf(const ModelFiles& files, const ModelOverrides& overrides) {
  PAGODA_ASSIGN_OR_RETURN(GgufFile file, GgufFile::open(files.path));
  std::vector<TensorFile> parts = {file};
  if (const std::int64_t count = file.integer("split.count").value_or(0); count > 1)
    PAGODA_RETURN_IF_ERROR(add_parts(files.path, count, file, parts));
  if (const Status status = override_as_config(file, overrides.config); !status.ok())
    return status.annotate("--hf-overrides");
  if (const Status status = override_rope(file, overrides.rope); !status.ok()) return status;
  if (const Status status = override_metadata(file, overrides.metadata); !status.ok())
    return status.annotate("--override-kv");
  if (const Status status = file.check_is_model(); !status.ok())
    return status.annotate(printable(files.path));
  if (const Status status = file.check_supported(); !status.ok())
    return status.annotate(printable(files.path));
  return std::unique_ptr<ModelSource>(
      std::make_unique<GgufSource>(std::move(file), std::move(parts), files.name, files.path));
}

}  // namespace

Result<std::unique_ptr<ModelSource>> ModelSource::open(const std::string& model, const HubPaths& hub,
                                                       const ModelOverrides& overrides) {
  PAGODA_ASSIGN_OR_RETURN(const ModelFiles files, find_model_files(model, hub));
  const std::string of_config = without_pooling_keys(overrides.config);
  if (files.format == ModelFormat::gguf)
    return open_gguf(files, {of_config, overrides.rope, overrides.metadata});
  if (!overrides.metadata.empty())
    return invalid_argument(
        "--override-kv is for a GGUF file, and the model is a folder; --hf-overrides sets fields "
        "of its config.json");
  return open_hugging_face(files, of_config, overrides.rope, overrides.quantize_activations);
}

}  // namespace pagoda
