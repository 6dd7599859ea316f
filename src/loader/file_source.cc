#include "loader/file_source.h"

#include <algorithm>

#include "base/strings.h"

namespace pagoda {

std::string TensorFile::identity() const {
  std::size_t header = file_->bytes().size();
  for (const FileTensor& tensor : tensor_list_)
    if (tensor.bytes > 0)
      header = std::min(header, static_cast<std::size_t>(tensor.data - file_->bytes().data()));
  return file_->identity(header);
}

const TensorView* FileSource::find(std::string_view name) const {
  const auto tensor = tensors_.find(name);
  return tensor == tensors_.end() ? nullptr : &tensor->second;
}

std::vector<std::string> FileSource::tensor_names() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_) names.push_back(name);
  return names;
}

bool FileSource::unchanged() const {
  return std::ranges::all_of(files_, [](const TensorFile& file) { return file.file()->unchanged(); });
}

Status FileSource::bring_in(const TensorView& tensor, ThreadPool*) const {
  for (const TensorFile& file : files_) file.file()->read_ahead(stored_bytes(tensor));
  return ok_status();
}

void FileSource::give_back(const TensorView& tensor) const {
  for (const TensorFile& file : files_) file.file()->give_back(stored_bytes(tensor));
}

void FileSource::has_read(const TensorView& rows) const {
  for (const TensorFile& file : files_) {
    file.file()->give_back(stored_bytes(rows));
    file.file()->read_ahead(stored_bytes(rows));
  }
}

std::string FileSource::identities(std::string_view before) const {
  std::string text;
  for (const TensorFile& file : files_) text += concat(before, file.identity());
  return text;
}

}  // namespace pagoda
