#pragma once
// VectorWriter: an AnswerWriter that waits for the vectors of all prompts of a call and then writes them,
// some at a time. The protocol writes the text before, around and after each vector. Invariants: those of
// AnswerWriter; a vector is freed once it has been written. Threads: none; one at a time.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "api/answer_writer.h"
#include "api/json.h"
#include "request/request.h"

namespace pagoda {

class VectorWriter : public AnswerWriter {
 public:
  explicit VectorWriter(std::span<const Request> requests);

  void add(std::size_t prompt_index, RequestOutput output) override;
  void fail(Status error) override;
  std::vector<SequenceStop> take_stops() override { return {}; }
  bool streaming() const override { return false; }
  bool needs_every_output() const override { return false; }
  bool finished() const override { return num_left_ == 0 || !error_.ok(); }
  const Status& error() const override { return error_; }
  Usage usage() const override { return usage_; }
  bool take(std::string& out, std::size_t max_bytes) override;
  double held() const override;

 protected:
  // Called once, when all vectors are available. Returns the number of items in the answer.
  virtual std::size_t prepare() { return vectors_.size(); }
  virtual void write_begin(std::string& out) = 0;
  virtual void write_item(std::string& out, std::size_t index) = 0;
  virtual void write_end(std::string& out) = 0;

  // Time from the first prompt's arrival to the last vector.
  TimeNs duration() const { return ended_at_ - arrival_; }

  std::vector<std::vector<float>> vectors_;  // by prompt

 private:
  Usage usage_;
  Status error_;
  std::vector<bool> ended_;
  std::size_t num_left_ = 0;
  std::size_t next_ = 0, num_items_ = 0;  // items written, and all items
  TimeNs arrival_ = 0, ended_at_ = 0;     // over all prompts
  bool begun_ = false, done_ = false;
};

// Writes the numbers of a vector as a JSON array.
void write_floats(JsonWriter& json, std::span<const float> values);
// The vector's bytes (little-endian float32) in base64.
std::string base64_of(std::span<const float> values);

}  // namespace pagoda
