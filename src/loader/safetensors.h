#pragma once
// SafetensorsFile: one .safetensors file, memory-mapped: tensor views and the free-form metadata. The
// header is read as a stream, so a hostile one costs no more memory than its own size. Not a model: see
// hf_source.cc for folders and shards.
// Invariant, as the format asks: tensors lie one after the other and fill the data section exactly.
// Source: the safetensors format (README of huggingface/safetensors).
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "loader/mapped_file.h"
#include "tensor/tensor_view.h"

namespace pagoda {

// One tensor as the file lists it, of a type that Pagoda reads or not.
struct SafetensorsTensor {
  std::string name;
  std::string_view type;            // "BF16", "I64"
  std::optional<DType> dtype;       // set for F32, F16 and BF16
  std::vector<std::int64_t> shape;  // outermost first
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

// unimplemented where the tensor's type is neither supported nor one of masks and position buffers (U8, BOOL,
// I64), which old checkpoints carry along.
Status check_supported(const SafetensorsTensor& tensor);

class SafetensorsFile {
 public:
  // not_found, or corrupt_data naming what is wrong. Opens with any defined type: see check_supported().
  static Result<SafetensorsFile> open(const std::string& path);
  // The same on bytes in memory, which must outlive the result: for fuzzing.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes);

  // The tensors of supported types, by name.
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  // All tensors, in the order of their bytes.
  const std::vector<SafetensorsTensor>& tensor_list() const { return tensor_list_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The same for all tensors.
  Status check_supported() const;

  const std::shared_ptr<MappedFile>& file() const { return file_; }  // null after parse()

 private:
  std::shared_ptr<MappedFile> file_;
  std::map<std::string, TensorView, std::less<>> tensors_;
  std::vector<SafetensorsTensor> tensor_list_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace pagoda
