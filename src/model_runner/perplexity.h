#pragma once
// Perplexity of a text: the mean negative log-likelihood of its tokens, each given those before it in its
// window. Windows of `context` tokens without overlap, each run on its own from position 0; its first token
// is not scored, nor is a last window of one token run. With a BOS that stands at the head of each window as
// one of its tokens, and all that follow are scored.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "model_runner/model_runner.h"

namespace pagoda {

struct PerplexityOptions {
  std::int32_t context = 512;                 // tokens in a window, at least 2
  std::int32_t block_size = 16;               // the runner's KV cache, which must hold one window
  std::vector<KvGroup> groups = {};           // the runner's model; empty: one, a page a row
  std::int32_t max_num_batched_tokens = 512;  // a longer window is run in chunks
  std::optional<TokenId> bos = {};
};

struct PerplexityResult {
  double mean_nll = 0;
  double perplexity = 0;
  std::int64_t num_scored = 0;
  std::vector<double> window_mean_nll;
};

// `progress` (may be empty) is told the windows done. invalid_argument: fewer than two tokens, BOS included.
Result<PerplexityResult> measure_perplexity(ModelRunner& runner, std::span<const TokenId> tokens,
                                            const PerplexityOptions& options,
                                            const std::function<void(std::int64_t)>& progress = {});

// One window, run chunk by chunk as the only sequence of the runner, in the KV pages 0, 1, ...
class WindowRun {
 public:
  // Borrows all of them. num_top: so many of the most likely tokens at each position are told.
  WindowRun(ModelRunner& runner, std::span<const TokenId> tokens, const PerplexityOptions& options,
            std::int32_t num_top = 0);
  WindowRun(const WindowRun&) = delete;
  WindowRun& operator=(const WindowRun&) = delete;

  bool done() const { return first_ >= tokens_.size(); }
  // Runs the next `count` tokens, or those that are left, at most max_num_batched_tokens. What is known of
  // the tokens behind each of them; the window's last has none.
  Result<std::vector<TokenLogprobs>> next(std::size_t count);

 private:
  ModelRunner& runner_;
  std::span<const TokenId> tokens_;
  std::int32_t num_top_;
  std::size_t first_ = 0;
  std::vector<BlockId> pages_;
  std::vector<KvTable> tables_;
};

// The log-probability of every token of one window but the first.
Result<std::vector<float>> score_window(ModelRunner& runner, std::span<const TokenId> tokens,
                                        const PerplexityOptions& options);

// Calls `body` with each window of the text. invalid_argument: as of measure_perplexity.
Status for_each_window(std::span<const TokenId> tokens, const PerplexityOptions& options,
                       const std::function<Status(std::span<const TokenId> window)>& body);

}  // namespace pagoda
