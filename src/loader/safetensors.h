#pragma once
// SafetensorsFile: one .safetensors file, memory-mapped: tensor views and the free-form metadata. The header
// is parsed as a stream, so a malicious one costs no more memory than its own size. hf_source.cc handles
// folders and shards. Invariant, required by the format: tensors are contiguous and fill the data section
// exactly.
// Source: the safetensors format (README of huggingface/safetensors).
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/status.h"
#include "loader/tensor_file.h"

namespace pagoda {

// unimplemented: the tensor's type is neither supported nor a type of masks and position buffers (U8, BOOL,
// I64), which old checkpoints contain.
Status check_supported(const FileTensor& tensor);

class SafetensorsFile : public TensorFile {
 public:
  // not_found, or corrupt_data naming the fault. Opens files with any defined type: see check_supported().
  static Result<SafetensorsFile> open(const std::string& path) { return open_as<SafetensorsFile>(path); }
  // The same for bytes in memory, which must outlive the result; for fuzzing.
  static Result<SafetensorsFile> parse(std::span<const std::byte> bytes);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The same for all tensors.
  Status check_supported() const;

 private:
  friend class TensorFile;
  std::map<std::string, std::string> metadata_;
};

}  // namespace pagoda
