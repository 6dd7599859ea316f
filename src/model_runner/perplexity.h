#pragma once
// Perplexity of a text: exp of the mean negative log-likelihood of its tokens, each given the tokens before
// it in its window. Windows have `context` tokens, do not overlap, and each runs on its own from position 0.
// A window's first token is not scored, and a last window of a single token is skipped. With a BOS, each
// window starts with it (counted in `context`), and all tokens after it are scored.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/status.h"
#include "model_runner/model_runner.h"

namespace pagoda {

struct PerplexityOptions {
  std::int32_t context = 512;        // tokens per window, at least 2
  std::int32_t block_size = 16;      // block size of the runner's KV cache, which must hold one window
  std::vector<KvGroup> groups = {};  // KV groups of the runner's model; empty: one group, one page per row
  std::int32_t max_num_batched_tokens = 512;  // longer windows run in chunks
  std::optional<TokenId> bos = {};
};

struct PerplexityResult {
  double mean_nll = 0;
  double perplexity = 0;
  std::int64_t num_scored = 0;
  std::vector<double> window_mean_nll;
};

// `progress` (may be empty) is called with the number of finished windows. invalid_argument: fewer than two
// tokens, BOS included.
Result<PerplexityResult> measure_perplexity(ModelRunner& runner, std::span<const TokenId> tokens,
                                            const PerplexityOptions& options,
                                            const std::function<void(std::int64_t)>& progress = {});

// One window, run chunk by chunk as the runner's only sequence, in the KV pages 0, 1, ...
class WindowRun {
 public:
  // Borrows all arguments. num_top: number of most likely tokens to report at each position.
  WindowRun(ModelRunner& runner, std::span<const TokenId> tokens, const PerplexityOptions& options,
            std::int32_t num_top = 0);
  WindowRun(const WindowRun&) = delete;
  WindowRun& operator=(const WindowRun&) = delete;

  bool done() const { return first_ >= tokens_.size(); }
  // Runs the next `count` tokens, but no more than are left or than max_num_batched_tokens. Returns the
  // log-probabilities of the token that follows each of them; the window's last token has no successor.
  Result<std::vector<TokenLogprobs>> next(std::size_t count);

 private:
  ModelRunner& runner_;
  std::span<const TokenId> tokens_;
  std::int32_t num_top_;
  std::size_t first_ = 0;
  std::vector<BlockId> pages_;
  std::vector<KvTable> tables_;
};

// Returns the log-probability of every token of a window except the first.
Result<std::vector<float>> score_window(ModelRunner& runner, std::span<const TokenId> tokens,
                                        const PerplexityOptions& options);

// Calls `body` with each window of the text. invalid_argument: as for measure_perplexity.
Status for_each_window(std::span<const TokenId> tokens, const PerplexityOptions& options,
                       const std::function<Status(std::span<const TokenId> window)>& body);

}  // namespace pagoda
