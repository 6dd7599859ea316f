#include "loader/safetensors_writer.h"

#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>

#include "base/assign_or_return.h"
#include "base/check.h"
#include "base/strings.h"
#include "loader/model_files.h"

namespace pagoda {
namespace {

namespace json = boost::json;

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::string folder, std::vector<SafetensorsEntry> tensors,
                                     std::int64_t shard_bytes)
    : folder_(std::move(folder)), tensors_(std::move(tensors)) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (bytes > 0 && bytes + tensors_[i].bytes > shard_bytes) {
      ends_.push_back(i);
      bytes = 0;
    }
    bytes += tensors_[i].bytes;
  }
  ends_.push_back(tensors_.size());
}

Result<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::create(std::string folder,
                                                                     std::vector<SafetensorsEntry> tensors,
                                                                     std::int64_t shard_bytes) {
  CHECK(!tensors.empty());
  std::unique_ptr<SafetensorsWriter> writer(
      new SafetensorsWriter(std::move(folder), std::move(tensors), shard_bytes));
  PAGODA_RETURN_IF_ERROR(writer->open_shard());
  return writer;
}

std::string SafetensorsWriter::shard_name(std::size_t shard) const {
  if (ends_.size() == 1) return "model.safetensors";
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", shard + 1, ends_.size());
  return name;
}

// Opens the next file and writes its header.
Status SafetensorsWriter::open_shard() {
  json::object header;
  header["__metadata__"] = {{"format", "pt"}};
  std::int64_t offset = 0;
  for (std::size_t i = tensor_; i < ends_[shard_]; ++i) {
    const SafetensorsEntry& tensor = tensors_[i];
    header[tensor.name] = {{"dtype", tensor.type},
                           {"shape", json::value_from(tensor.shape)},
                           {"data_offsets", {offset, offset + tensor.bytes}}};
    offset += tensor.bytes;
  }
  std::string text = json::serialize(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t size = text.size();
  PAGODA_ASSIGN_OR_RETURN(file_, NewFile::create(in_folder(folder_, shard_name(shard_))));
  PAGODA_RETURN_IF_ERROR(file_->write({reinterpret_cast<const char*>(&size), sizeof size}));
  return file_->write(text);
}

Status SafetensorsWriter::write(std::span<const std::byte> piece) {
  CHECK(tensor_ < tensors_.size());
  const std::int64_t bytes = tensors_[tensor_].bytes;
  written_ += static_cast<std::int64_t>(piece.size());
  CHECK(written_ <= bytes);
  PAGODA_RETURN_IF_ERROR(file_->write({reinterpret_cast<const char*>(piece.data()), piece.size()}));
  if (written_ < bytes) return ok_status();
  ++tensor_;
  written_ = 0;
  if (tensor_ < ends_[shard_] || shard_ + 1 == ends_.size()) return ok_status();
  PAGODA_RETURN_IF_ERROR(file_->finish());
  ++shard_;
  return open_shard();
}

Status SafetensorsWriter::write_index() const {
  json::object map;
  std::int64_t total = 0;
  for (std::size_t i = 0, shard = 0; i < tensors_.size(); ++i) {
    if (i == ends_[shard]) ++shard;
    map[tensors_[i].name] = shard_name(shard);
    total += tensors_[i].bytes;
  }
  const json::object index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  PAGODA_ASSIGN_OR_RETURN(auto file, NewFile::create(in_folder(folder_, "model.safetensors.index.json")));
  PAGODA_RETURN_IF_ERROR(file->write(json::serialize(index) + "\n"));
  return file->finish();
}

Status SafetensorsWriter::finish() {
  CHECK(tensor_ == tensors_.size());
  PAGODA_RETURN_IF_ERROR(file_->finish());
  return ends_.size() == 1 ? ok_status() : write_index();
}

}  // namespace pagoda
