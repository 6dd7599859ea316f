#pragma once
// PoolingWriter: writes vectors in the forms of OpenAI's and vLLM's answers. Threads: none; one at a time.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/api_context.h"
#include "api/pooling/pooling_parser.h"
#include "api/vector_writer.h"

namespace pagoda {

class PoolingWriter final : public VectorWriter {
 public:
  PoolingWriter(PoolingCall call, const ApiContext& context);  // borrows context

 protected:
  std::size_t prepare() override;
  void write_begin(std::string& out) override;
  void write_item(std::string& out, std::size_t index) override;
  void write_end(std::string& out) override;

 private:
  bool ranks() const { return call_.form == PoolingForm::rerank || call_.form == PoolingForm::rerank_list; }
  bool scores() const { return call_.form == PoolingForm::score || ranks(); }
  // True if the answer is a list without an enclosing object.
  bool listed() const {
    return call_.form == PoolingForm::embedding_list || call_.form == PoolingForm::rerank_list ||
           call_.form == PoolingForm::vector_list;
  }
  void write_usage(JsonWriter& json) const;
  void write_ranked(std::string& out, std::size_t rank) const;
  void write_class(JsonWriter& json, std::size_t index) const;

  PoolingCall call_;  // without its requests
  const ApiContext& context_;
  std::vector<float> scores_;
  std::vector<std::size_t> order_;  // documents of a rerank, best first
};

}  // namespace pagoda
