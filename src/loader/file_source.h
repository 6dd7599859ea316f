#pragma once
// FileSource: the part of ModelSource common to both formats: tensors in mapped files. Private to loader/.
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "loader/model_source.h"
#include "loader/tensor_file.h"

namespace pagoda {

class FileSource : public ModelSource {
 public:
  const TensorView* find(std::string_view name) const override;
  std::vector<std::string> tensor_names() const override;
  const std::string& path() const override { return path_; }
  bool unchanged() const override;
  Status bring_in(const TensorView& tensor, ThreadPool* pool) const override;
  void give_back(const TensorView& tensor) const override;
  void has_read(const TensorView& rows) const override;

 protected:
  using Tensors = std::map<std::string, TensorView, std::less<>>;
  FileSource(std::string path, std::vector<TensorFile> files, Tensors tensors)
      : path_(std::move(path)), files_(std::move(files)), tensors_(std::move(tensors)) {}
  std::string identities(std::string_view before) const;  // concatenated, each preceded by `before`

 private:
  std::string path_;
  std::vector<TensorFile> files_;  // keep the mappings alive
  Tensors tensors_;
};

}  // namespace pagoda
