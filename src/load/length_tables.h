#pragma once
// The lengths of ShareGPT's and Alpaca's requests, each as a table of equally likely pairs: data, nothing
// else.
//
//   sharegpt   79,731 first rounds of the paper's own artifact (github.com/sosp-ae-39/sosp-ae-astra, commit
//              1edca6a, OPT's tokenizer, prompt + answer up to 2,048 tokens): means 161.31 / 337.99, those of
//              Fig. 11. The table's mean is the same; E[answer^2] / E[answer] is 574, the data's 576.
//   alpaca     9,225 of Stanford Alpaca's 52,002 (a uniform sample, gpt4life/alpagasus, commit 95ad3e52),
//              OPT's tokenizer: 18.95 / 57.95, where the paper has 19.31 / 58.45 for all of them.
//
// Made by tools/length_tables, which says how. Only counts; nobody's text. Units: tokens. Threads: any.
#include <cstdint>
#include <span>

namespace pagoda {

struct LengthPair {
  std::uint16_t prompt_tokens, output_tokens;
};

std::span<const LengthPair> sharegpt_lengths();
std::span<const LengthPair> alpaca_lengths();

}  // namespace pagoda
