#pragma once
// For tests: drives sequences through a ModelRunner by hand, with blocks from a counter; also finds and reads
// golden files.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "loader/model_source.h"
#include "model_runner/local_model_runner.h"

namespace pagoda::testing {

struct TestSequence {
  std::vector<TokenId> tokens;
  std::int32_t num_prompt = 0, num_computed = 0;
  std::vector<BlockId> blocks;  // pages of rows of full attention
  std::vector<BlockId> state;   // pages of its state, if the model has states
  KvTable state_table;
  SamplingParams params;
  std::uint64_t seed = 0;
  AdapterId adapter = kNoAdapter;
  std::int32_t prompt_logprobs = -1;
  std::vector<MaskWord> mask;      // allowed tokens of every drawn row; empty: all allowed
  std::vector<Candidate> sampled;  // one per step in which the sequence caught up
  std::vector<std::vector<TokenLogprob>> top;
  std::vector<TokenLogprobs> prompt_scores;

  bool caught_up() const { return num_computed == static_cast<std::int32_t>(tokens.size()); }
};

inline TestSequence greedy(std::vector<TokenId> prompt) {
  TestSequence sequence;
  sequence.num_prompt = static_cast<std::int32_t>(prompt.size());
  sequence.tokens = std::move(prompt);
  sequence.params.temperature = 0;
  sequence.params.logprobs = 5;
  return sequence;
}

// Expects equal tokens, log-probabilities and most likely tokens at every step, to the bit.
inline void expect_same_draws(const TestSequence& got, const TestSequence& want) {
  ASSERT_EQ(got.sampled.size(), want.sampled.size());
  ASSERT_EQ(got.top.size(), want.top.size());
  for (std::size_t i = 0; i < want.sampled.size(); ++i) {
    ASSERT_EQ(got.sampled[i].token, want.sampled[i].token) << "step " << i;
    EXPECT_EQ(std::bit_cast<std::uint32_t>(got.sampled[i].logprob),
              std::bit_cast<std::uint32_t>(want.sampled[i].logprob))
        << "step " << i;
    ASSERT_EQ(got.top[i].size(), want.top[i].size());
    for (std::size_t k = 0; k < want.top[i].size(); ++k) {
      EXPECT_EQ(got.top[i][k].token, want.top[i][k].token);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(got.top[i][k].logprob),
                std::bit_cast<std::uint32_t>(want.top[i][k].logprob));
    }
  }
}

// Returns the largest difference between log-probabilities at the same place.
inline float largest_difference(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i].logprob - b[i].logprob));
  return largest;
}

// Returns the KV groups of a LocalModelRunner's model; otherwise one group of full attention.
inline std::vector<KvGroup> groups_of(ModelRunner& runner, std::int32_t block_size) {
  const auto* local = dynamic_cast<const LocalModelRunner*>(&runner);
  return local != nullptr ? local->kv_plan().groups : one_full_group(block_size);
}

class Driver {
 public:
  explicit Driver(LocalModelRunner& runner) : Driver(runner, runner.kv_layout().block_size) {}
  Driver(ModelRunner& runner, std::int32_t block_size)
      : Driver(runner, block_size, groups_of(runner, block_size)) {}
  Driver(ModelRunner& runner, std::int32_t block_size, std::vector<KvGroup> groups)
      : runner_(runner), block_size_(block_size), groups_(std::move(groups)) {}

  void cover(TestSequence& sequence, std::int32_t num_tokens) {
    const std::int32_t per_row = groups_.empty() ? 1 : groups_.front().pages_per_row;
    while (!states_alone() &&
           static_cast<std::int32_t>(sequence.blocks.size()) / per_row * block_size_ < num_tokens)
      take_row(per_row, sequence.blocks);
    if (has_states(groups_) && sequence.state.empty()) take_row(groups_.back().pages_per_row, sequence.state);
    sequence.state_table = {.blocks = sequence.state};
  }
  void take_row(std::int32_t pages, std::vector<BlockId>& to) {
    for (; pages > 0; --pages) to.push_back(static_cast<BlockId>(next_block_++));
  }
  const std::vector<KvGroup>& groups() const { return groups_; }
  std::int64_t num_settled_rows() const { return num_settled_rows_; }
  std::optional<double> idle_seconds() const { return idle_seconds_; }  // before the latest step

  // Runs one step: each sequence computes up to `chunk` of its remaining tokens. Sampled tokens are recorded,
  // but not appended.
  Status step(const std::vector<TestSequence*>& sequences, std::int32_t chunk,
              std::vector<BlockCopy> copies = {}, std::vector<StateCopy> state_copies = {}) {
    ScheduledBatch batch;
    batch.block_copies = std::move(copies);
    batch.state_copies = std::move(state_copies);
    for (TestSequence* sequence : sequences) {
      const auto known = static_cast<std::int32_t>(sequence->tokens.size());
      const std::int32_t count = std::min(chunk, known - sequence->num_computed);
      cover(*sequence, sequence->num_computed + count);
      ScheduledSequence scheduled;
      scheduled.num_computed_tokens = sequence->num_computed;
      scheduled.tokens =
          std::span<const TokenId>(sequence->tokens)
              .subspan(static_cast<std::size_t>(sequence->num_computed), static_cast<std::size_t>(count));
      scheduled.all_tokens = sequence->tokens;
      scheduled.num_prompt_tokens = sequence->num_prompt;
      scheduled.block_table = states_alone() ? sequence->state : sequence->blocks;
      scheduled.adapter = sequence->adapter;
      scheduled.rotation = runner_.rotation_rule().rotation_of(sequence->num_prompt);
      if (has_states(groups_) && !states_alone())
        scheduled.more_tables = std::span(&sequence->state_table, 1);
      scheduled.sample = sequence->num_computed + count == known;
      scheduled.spec.params = &sequence->params;
      scheduled.spec.seed = sequence->seed;
      scheduled.spec.masks = sequence->mask;
      scheduled.spec.num_output_tokens = known - sequence->num_prompt;
      scheduled.prompt_logprobs = sequence->prompt_logprobs;
      batch.num_tokens += count;
      batch.sequences.push_back(scheduled);
    }
    const StepResult result = runner_.run(batch);
    if (!result.status.ok()) return result.status;
    num_settled_rows_ += result.num_settled_rows;
    idle_seconds_ = result.idle_seconds;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      TestSequence& sequence = *sequences[i];
      const SequenceResult& got = result.sequences[i];
      sequence.num_computed += static_cast<std::int32_t>(batch.sequences[i].tokens.size());
      sequence.prompt_scores.insert(sequence.prompt_scores.end(), got.prompt_logprobs.begin(),
                                    got.prompt_logprobs.end());
      if (got.candidates.empty()) continue;
      sequence.sampled.push_back(got.candidates.front());
      sequence.top.push_back(got.top);
    }
    return ok_status();
  }

  // Runs steps until each sequence has `count` sampled tokens, appending each token.
  Status generate(const std::vector<TestSequence*>& sequences, std::size_t count,
                  std::int32_t chunk = 1 << 20) {
    for (;;) {
      std::vector<TestSequence*> active;
      for (TestSequence* sequence : sequences) {
        if (sequence->sampled.size() < count) active.push_back(sequence);
      }
      if (active.empty()) return ok_status();
      const std::vector<std::size_t> before = sampled_counts(active);
      PAGODA_RETURN_IF_ERROR(step(active, chunk));
      for (std::size_t i = 0; i < active.size(); ++i) {
        if (active[i]->sampled.size() > before[i])
          active[i]->tokens.push_back(active[i]->sampled.back().token);
      }
    }
  }

 private:
  bool states_alone() const { return !groups_.empty() && groups_.front().is_state(); }
  static std::vector<std::size_t> sampled_counts(const std::vector<TestSequence*>& sequences) {
    std::vector<std::size_t> counts;
    for (const TestSequence* sequence : sequences) counts.push_back(sequence->sampled.size());
    return counts;
  }

  ModelRunner& runner_;
  std::int32_t block_size_;
  std::vector<KvGroup> groups_;
  std::int32_t next_block_ = 0;
  std::int64_t num_settled_rows_ = 0;
  std::optional<double> idle_seconds_;
};

inline std::shared_ptr<const ModelSource> opened(const std::string& path) {
  auto source = ModelSource::open(path);
  EXPECT_TRUE(source) << path;
  return std::shared_ptr<const ModelSource>(*std::move(source));
}

inline std::string fixture(const std::string& name) {
  return std::string(PAGODA_SOURCE_DIR) + "/tests/fixtures/tiny_models/" + name;
}

// Returns a path under the shared test data; nullopt if the file does not exist.
inline std::optional<std::string> shared_data(const std::string& name) {
  std::vector<std::string> roots = {PAGODA_SOURCE_DIR "/../shared/data",
                                    PAGODA_SOURCE_DIR "/../../shared/data"};
  if (const char* root = std::getenv("PAGODA_SHARED_DATA")) roots.insert(roots.begin(), root);
  for (const std::string& root : roots) {
    if (std::filesystem::exists(root + "/" + name)) return root + "/" + name;
  }
  return std::nullopt;
}

// Returns a file that script/model has put into its cache; nullopt if it has not been fetched.
inline std::optional<std::string> fetched_model(const std::string& file) {
  std::vector<std::string> caches;
  if (const char* cache = std::getenv("PAGODA_CACHE")) caches.emplace_back(cache);
  if (const char* cache = std::getenv("XDG_CACHE_HOME")) caches.push_back(std::string(cache) + "/pagoda");
  if (const char* home = std::getenv("HOME")) caches.push_back(std::string(home) + "/.cache/pagoda");
  for (const std::string& cache : caches) {
    const std::string path = cache + "/models/" + file;
    if (std::filesystem::exists(path)) return path;
  }
  return std::nullopt;
}

// Returns the default model's file.
inline std::optional<std::string> default_model_file() {
  if (const char* model = std::getenv("PAGODA_MODEL"); model != nullptr && std::filesystem::exists(model))
    return model;
  return fetched_model("SmolLM2-135M-Instruct.Q4_1.gguf");
}

inline std::vector<boost::json::object> read_json_lines(const std::string& path) {
  std::vector<boost::json::object> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.empty()) lines.push_back(boost::json::parse(line).as_object());
  }
  return lines;
}

inline std::vector<TokenId> ids_of(const boost::json::value& value) {
  std::vector<TokenId> ids;
  for (const boost::json::value& id : value.as_array()) ids.push_back(id.to_number<TokenId>());
  return ids;
}

inline std::vector<double> numbers_of(const boost::json::value& value) {
  std::vector<double> numbers;
  for (const boost::json::value& number : value.as_array()) numbers.push_back(number.to_number<double>());
  return numbers;
}

}  // namespace pagoda::testing
