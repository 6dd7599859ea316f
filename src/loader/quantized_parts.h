#pragma once
// For tests: a folder with one quantised weight, built part by part.
#include <memory>
#include <string>
#include <vector>

#include "loader/model_source.h"
#include "loader/test_files.h"

namespace pagoda::testing {

// A file with one quantised weight; tensors are written in the order in which they are added.
class Parts {
 public:
  Parts& add(const std::string& name, const std::string& type, const std::string& shape,
             const std::string& bytes) {
    header_ += (header_.empty() ? "" : ",") +
               ("\"" + name + R"(":{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
                std::to_string(data_.size()) + "," + std::to_string(data_.size() + bytes.size()) + "]}");
    data_ += bytes;
    return *this;
  }
  Parts& floats(const std::string& name, const std::string& shape, const std::vector<float>& values) {
    return add(name, "F32", shape,
               std::string(reinterpret_cast<const char*>(values.data()), values.size() * 4));
  }
  Result<std::unique_ptr<ModelSource>> open(const std::string& how) const {
    scratch_.write("config.json", R"({"model_type":"llama","quantization_config":)" + how + "}");
    scratch_.write("model.safetensors", safetensors("{" + header_ + "}", data_));
    return ModelSource::open(scratch_.path());
  }
  // Returns the error of opening it, or of bringing in `w.weight`.
  std::string refused(const std::string& how) const {
    const auto source = open(how);
    if (!source) return source.error().message();
    const TensorView* const weight = (*source)->find("w.weight");
    return weight == nullptr ? "no weight" : (*source)->bring_in(*weight).message();
  }

 private:
  ScratchFolder scratch_;
  std::string header_, data_;
};

}  // namespace pagoda::testing
