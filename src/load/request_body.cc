#include "load/request_body.h"

#include <array>
#include <boost/json/serialize.hpp>
#include <boost/json/string.hpp>
#include <string_view>

#include "base/random.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::int32_t kTokensPerHash = 512;
enum : std::uint64_t { kOwnStream = 1, kPrefixStream, kHashStream };

// Each is a single token, with its leading space, in common byte-pair vocabularies.
constexpr std::array<std::string_view, 64> kWords = {
    "the",   "of",    "and",  "to",   "in",    "is",    "that", "for",  "it",    "as",    "was",
    "with",  "be",    "by",   "on",   "not",   "he",    "this", "are",  "or",    "his",   "from",
    "at",    "which", "but",  "have", "an",    "had",   "they", "you",  "were",  "their", "one",
    "all",   "we",    "can",  "her",  "has",   "there", "been", "if",   "more",  "when",  "will",
    "would", "who",   "so",   "no",   "time",  "what",  "up",   "out",  "about", "them",  "some",
    "its",   "into",  "then", "two",  "first", "like",  "over", "make", "day"};

// A random number for the token at `position`, equal for equal prefixes.
std::uint64_t token_bits(const WorkloadRequest& request, std::uint64_t index, std::uint64_t seed,
                         std::int32_t position) {
  const auto p = static_cast<std::uint64_t>(position);
  if (position < request.shared_prefix_tokens)
    return random_bits(seed ^ request.shared_prefix_id, kPrefixStream, p);
  const auto block = static_cast<std::size_t>(position / kTokensPerHash);
  if (block < request.prefix_hash_ids.size())
    return random_bits(seed ^ mix64(request.prefix_hash_ids[block]), kHashStream, p);
  return random_bits(seed ^ mix64(index), kOwnStream, p);
}

std::string made_up_ids(const WorkloadRequest& request, std::uint64_t index, const BodyOptions& options) {
  std::string ids = "[";
  const auto width = static_cast<std::uint64_t>(options.token_high - options.token_low) + 1;
  for (std::int32_t i = 0; i < request.prompt_tokens; ++i) {
    if (i > 0) ids.push_back(',');
    const std::uint64_t bits = token_bits(request, index, options.seed, i) >> 32;
    ids += std::to_string(options.token_low + static_cast<std::int64_t>(bits * width >> 32));
  }
  return ids + "]";
}

std::string made_up_words(const WorkloadRequest& request, std::uint64_t index, const BodyOptions& options) {
  std::string text = "\"";
  for (std::int32_t i = 0; i < request.prompt_tokens; ++i) {
    if (i > 0) text.push_back(' ');
    text += kWords[token_bits(request, index, options.seed, i) >> 58];
  }
  return text + "\"";
}

std::string quoted(const std::string& text) { return boost::json::serialize(boost::json::string(text)); }

// Writes the body for an endpoint with a single choice and other fields than OpenAI's completions.
std::string write_other(const WorkloadRequest& request, const std::string& prompt,
                        const BodyOptions& options) {
  using Endpoint = BodyOptions::Endpoint;
  const char* const ignore_eos = options.ignore_eos ? ",\"ignore_eos\":true" : "";
  if (options.endpoint == Endpoint::embeddings)  // vectors are not streamed
    return concat("{\"model\":", quoted(options.model), ",\"input\":", prompt, options.extra_members, "}");
  std::string body = concat("{\"model\":", quoted(options.model), ",\"stream\":true");
  const std::string messages = concat(R"(,"messages":[{"role":"user","content":)", prompt, "}]");
  switch (options.endpoint) {
    case Endpoint::responses:
      body += concat(",\"store\":false,\"input\":", prompt, ",\"max_output_tokens\":", request.output_tokens,
                     ignore_eos);
      break;
    case Endpoint::messages:
      body += concat(messages, ",\"max_tokens\":", request.output_tokens, ignore_eos);
      break;
    case Endpoint::ollama:
      body += concat(messages, ",\"options\":{\"num_predict\":", request.output_tokens, ignore_eos, "}");
      break;
    default:
      body += concat(",\"prompt\":", prompt, ",\"n_predict\":", request.output_tokens, ignore_eos);
  }
  return body + options.extra_members + "}";
}

}  // namespace

std::string write_body(const WorkloadRequest& request, std::uint64_t index, const BodyOptions& options) {
  using Endpoint = BodyOptions::Endpoint;
  const bool takes_ids = has_choices(options.endpoint) || options.endpoint == Endpoint::llamacpp ||
                         options.endpoint == Endpoint::embeddings;
  const bool chat = options.endpoint == BodyOptions::Endpoint::chat;
  std::string prompt = !request.prompt.empty() ? quoted(request.prompt)
                       : chat || !takes_ids || options.made_up == BodyOptions::MadeUp::words
                           ? made_up_words(request, index, options)
                           : made_up_ids(request, index, options);
  if (!has_choices(options.endpoint)) return write_other(request, prompt, options);
  std::string body = concat("{\"model\":", quoted(options.model));
  if (chat)
    body += concat(R"(,"messages":[{"role":"user","content":)", prompt, R"(}],"max_completion_tokens":)",
                   request.output_tokens);
  else
    body += concat(",\"prompt\":", prompt, ",\"max_tokens\":", request.output_tokens);
  body += R"(,"stream":true,"stream_options":{"include_usage":true)";
  // With several choices the count in a chunk does not tell which choice the tokens belong to.
  if (options.continuous_usage && request.n == 1 && request.beam_width == 0)
    body += ",\"continuous_usage_stats\":true";
  body += "}";
  if (options.ignore_eos) body += ",\"ignore_eos\":true";
  if (request.beam_width > 0)
    body += concat(",\"use_beam_search\":true,\"beam_width\":", request.beam_width,
                   ",\"n\":", request.beam_width);
  else if (request.n > 1)
    body += concat(",\"n\":", request.n);
  if (request.beam_width == 0 && request.best_of > request.n)
    body += concat(",\"best_of\":", request.best_of);
  return body + options.extra_members + "}";
}

}  // namespace pagoda
