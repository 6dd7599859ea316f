#include "api/pooling/pooling_writer.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"

namespace pagoda {
namespace {

// The dot product, which is the cosine for vectors of length 1.
float product(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

}  // namespace

PoolingWriter::PoolingWriter(PoolingCall call, const ApiContext& context)
    : VectorWriter(call.requests), call_(std::move(call)), context_(context) {
  call_.requests.clear();
}

std::size_t PoolingWriter::prepare() {
  if (!scores()) return vectors_.size();
  const std::size_t compared = call_.num_compared;
  for (std::size_t i = compared; i < vectors_.size(); ++i)
    scores_.push_back(compared == 0 ? vectors_[i].front()
                                    : product(vectors_[compared == 1 ? 0 : i - compared], vectors_[i]));
  vectors_.clear();
  if (call_.form == PoolingForm::score) return scores_.size();
  order_.resize(scores_.size());
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  std::ranges::sort(order_, [&](std::size_t a, std::size_t b) {
    return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : a < b;
  });
  return call_.top_n == 0 ? order_.size() : std::min(call_.top_n, order_.size());
}

void PoolingWriter::write_usage(JsonWriter& json) const {
  const Usage used = usage();
  json.key("usage").begin_object().key("prompt_tokens").integer(used.prompt_tokens);
  json.key("total_tokens").integer(used.prompt_tokens);
  if (call_.form == PoolingForm::rerank) {
    json.end_object();
    return;
  }
  json.key("completion_tokens").integer(0).key("prompt_tokens_details");
  if (used.cached_tokens > 0)
    json.begin_object().key("cached_tokens").integer(used.cached_tokens).end_object();
  else
    json.null();
  json.end_object();
}

void PoolingWriter::write_begin(std::string& out) {
  if (listed()) {
    out.push_back('[');
    return;
  }
  JsonWriter json(out);
  json.begin_object().key("id").string(call_.id);
  if (call_.form == PoolingForm::by_type) {
    json.key("response_type").string("embeddings_by_type").key("embeddings").begin_object();
    json.key("float").begin_array();
    return;
  }
  if (call_.form == PoolingForm::rerank) {
    json.key("model").string(context_.model_names.front());
    write_usage(json);
    json.key("results").begin_array();
    return;
  }
  json.key("object").string("list").key("created").integer(call_.created);
  json.key("model").string(context_.model_names.front()).key("data").begin_array();
}

void PoolingWriter::write_ranked(std::string& out, std::size_t rank) const {
  const std::size_t index = order_[rank];
  JsonWriter json(out);
  json.begin_object().key("index").integer(static_cast<std::int64_t>(index));
  if (listed()) {
    if (call_.return_documents) json.key("text").string(call_.documents[index]);
    json.key("score").float32(scores_[index]).end_object();
    return;
  }
  if (call_.return_documents)
    json.key("document").begin_object().key("text").string(call_.documents[index]).end_object();
  json.key("relevance_score").float32(scores_[index]).end_object();
}

void PoolingWriter::write_class(JsonWriter& json, std::size_t index) const {
  const std::vector<float>& values = vectors_[index];
  const auto best = static_cast<std::size_t>(std::ranges::max_element(values) - values.begin());
  json.key("label");
  if (context_.vectors && best < context_.vectors->labels.size())
    json.string(to_valid_utf8(context_.vectors->labels[best]));
  else
    json.null();
  json.key("probs");
  write_floats(json, values);
  json.key("num_classes").integer(static_cast<std::int64_t>(values.size()));
}

void PoolingWriter::write_item(std::string& out, std::size_t index) {
  if (ranks()) return write_ranked(out, index);
  JsonWriter json(out);
  if (call_.form == PoolingForm::vector_list || call_.form == PoolingForm::by_type) {
    write_floats(json, vectors_[index]);
    vectors_[index] = {};
    return;
  }
  json.begin_object().key("index").integer(static_cast<std::int64_t>(index));
  if (call_.form == PoolingForm::score) {
    json.key("object").string("score").key("score").float32(scores_[index]).end_object();
    return;
  }
  if (call_.form == PoolingForm::classify) {
    write_class(json, index);
  } else if (listed()) {  // llama.cpp's form has a list of vectors: here always one
    json.key("embedding").begin_array();
    write_floats(json, vectors_[index]);
    json.end_array();
  } else {
    const bool embedding = call_.form == PoolingForm::embeddings;
    json.key("object").string(embedding ? "embedding" : "pooling").key(embedding ? "embedding" : "data");
    if (call_.base64)
      json.string(base64_of(vectors_[index]));
    else
      write_floats(json, vectors_[index]);
  }
  json.end_object();
  vectors_[index] = {};
}

void PoolingWriter::write_end(std::string& out) {
  out.push_back(']');
  if (listed()) return;
  if (call_.form == PoolingForm::by_type) {
    out.append(concat("},\"meta\":{\"api_version\":{\"version\":\"2\"},\"billed_units\":{\"input_tokens\":",
                      usage().prompt_tokens, "}}}"));
    return;
  }
  if (call_.form != PoolingForm::rerank) {
    out.push_back(',');
    std::string usage_text;
    JsonWriter json(usage_text);
    json.begin_object();
    write_usage(json);
    json.end_object();
    out.append(usage_text, 1, usage_text.size() - 2);  // without braces: usage is the object's last member
  }
  out.push_back('}');
}

}  // namespace pagoda
