#pragma once
// For tests: rewrites a GGUF file as other versions and options of llama.cpp's converter write it: query, key
// and value in one matrix (--fuse-qkv), gate and up in one (for experts: --fuse-gate-up-exps), and without
// outer dimensions of 1 (older files).
#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "base/strings.h"
#include "loader/model_source.h"

namespace pagoda::testing {

class FusedGguf {
 public:
  // Overwrites `path`. Returns the number of fused tensors plus the number of dimensions dropped.
  static int write(const std::string& path) {
    FusedGguf file(path);
    file.fuse_all();
    file.write_to(path);
    return file.changed_;
  }

 private:
  struct Tensor {
    std::string name;
    std::vector<std::int64_t> shape;  // outermost first
    std::uint32_t type = 0;
    std::string bytes;
  };

  explicit FusedGguf(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string whole(std::istreambuf_iterator<char>(in), {});
    const auto read = GgufFile::open(path);
    if (!read) return;
    for (const FileTensor& tensor : read->tensor_list()) {
      const std::string entry = number(std::uint64_t{tensor.name.size()}) + tensor.name;
      const std::size_t at = whole.find(entry);
      if (tensors_.empty()) metadata_ = whole.substr(0, at);
      const std::size_t type = at + entry.size() + 4 + 8 * tensor.shape.size();
      std::uint32_t code = 0;
      std::memcpy(&code, whole.data() + type, sizeof code);
      tensors_.push_back(
          {tensor.name, tensor.shape, code,
           std::string(reinterpret_cast<const char*>(tensor.data), static_cast<std::size_t>(tensor.bytes))});
    }
  }

  void fuse_all() {
    std::vector<std::string> prefixes;
    for (const Tensor& tensor : tensors_)
      if (tensor.name.starts_with("blk.") && tensor.name.ends_with(".attn_norm.weight"))
        prefixes.push_back(tensor.name.substr(0, tensor.name.size() - 16));
    for (const Tensor& tensor : tensors_)
      if (tensor.name.starts_with("blk.") && tensor.name.ends_with(".attn_output.weight"))
        prefixes.push_back(tensor.name.substr(0, tensor.name.size() - 18));
    std::ranges::sort(prefixes);
    const auto repeated = std::ranges::unique(prefixes);
    prefixes.erase(repeated.begin(), repeated.end());
    for (const std::string& layer : prefixes) {
      fuse(layer, {"attn_q", "attn_k", "attn_v"}, "attn_qkv");
      fuse(layer, {"ffn_gate", "ffn_up"}, "ffn_up");
      fuse(layer, {"ffn_gate_shexp", "ffn_up_shexp"}, "ffn_up_shexp");
      fuse(layer, {"ffn_gate_exps", "ffn_up_exps"}, "ffn_gate_up_exps");
    }
    for (Tensor& tensor : tensors_)
      while (tensor.shape.size() > 1 && tensor.shape.front() == 1) {
        tensor.shape.erase(tensor.shape.begin());
        ++changed_;
      }
  }

  Tensor* find(const std::string& name) {
    const auto found = std::ranges::find(tensors_, name, &Tensor::name);
    return found == tensors_.end() ? nullptr : &*found;
  }

  // Fuses as the converter does: only if all tensors exist, and all or none of them have a bias.
  void fuse(const std::string& layer, const std::vector<std::string>& names, const std::string& fused) {
    std::size_t weights = 0, biases = 0;
    for (const std::string& name : names) {
      weights += find(layer + name + ".weight") != nullptr ? 1 : 0;
      biases += find(layer + name + ".bias") != nullptr ? 1 : 0;
    }
    if (weights != names.size() || (biases != 0 && biases != names.size())) return;
    for (const char* part : {".weight", ".bias"}) {
      if (find(layer + names.front() + part) == nullptr) continue;
      Tensor sum = *find(layer + names.front() + part);
      const bool stacked = sum.shape.size() == 3 || (sum.shape.size() == 2 && std::string(part) == ".bias");
      const std::size_t experts = stacked ? static_cast<std::size_t>(sum.shape[0]) : 1;
      const std::size_t axis = stacked ? 1 : 0;
      sum.name = layer + fused + part;
      sum.bytes.clear();
      sum.shape[axis] = 0;
      for (std::size_t expert = 0; expert < experts; ++expert)
        for (const std::string& name : names) {
          const std::string& bytes = find(layer + name + part)->bytes;
          sum.bytes += bytes.substr(expert * (bytes.size() / experts), bytes.size() / experts);
        }
      for (const std::string& name : names) {
        Tensor* const each = find(layer + name + part);
        sum.shape[axis] += each->shape[axis];
        tensors_.erase(tensors_.begin() + (each - tensors_.data()));
      }
      tensors_.push_back(std::move(sum));
      ++changed_;
    }
  }

  void write_to(const std::string& path) const {
    std::string table, data;
    for (const Tensor& tensor : tensors_) {
      table += number(std::uint64_t{tensor.name.size()}) + tensor.name;
      table += number(static_cast<std::uint32_t>(tensor.shape.size()));
      for (auto extent = tensor.shape.rbegin(); extent != tensor.shape.rend(); ++extent)
        table += number(static_cast<std::uint64_t>(*extent));
      table += number(tensor.type) + number(std::uint64_t{data.size()});
      data += tensor.bytes;
      data.resize((data.size() + 31) / 32 * 32);
    }
    std::string head = metadata_;
    head.replace(8, 8, number(std::uint64_t{tensors_.size()}));
    head += table;
    head.resize((head.size() + 31) / 32 * 32);
    std::ofstream(path, std::ios::binary) << head << data;
  }

  template <class T>
  static std::string number(T value) {
    return {reinterpret_cast<const char*>(&value), sizeof value};
  }

  std::string metadata_;  // metadata and the file header before it
  std::vector<Tensor> tensors_;
  int changed_ = 0;
};

}  // namespace pagoda::testing
