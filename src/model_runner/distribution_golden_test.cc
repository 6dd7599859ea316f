// Goal: the distribution that a token is drawn from, after penalties, temperature, min_p, top_k and top_p,
// equals the exact one computed in double precision from the same model.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "model_runner/test_sequences.h"
#include "models/decoder/decoder.h"
#include "sampler/distribution.h"
#include "sampler/logits_processor.h"

namespace pagoda::testing {
namespace {

SamplingParams params_of(const boost::json::object& fields) {
  SamplingParams params;
  const auto set = [&](const char* name, auto& member) {
    using Member = std::remove_reference_t<decltype(member)>;
    if (const boost::json::value* value = fields.if_contains(name)) member = value->to_number<Member>();
  };
  set("temperature", params.temperature);
  set("top_k", params.top_k);
  set("top_p", params.top_p);
  set("min_p", params.min_p);
  set("repetition_penalty", params.repetition_penalty);
  set("presence_penalty", params.presence_penalty);
  set("frequency_penalty", params.frequency_penalty);
  return params;
}

TEST(GoldenDistributions, AreExact) {
  const auto folder = shared_data("models/stories260K");
  if (!folder) GTEST_SKIP() << "no shared test data: set PAGODA_SHARED_DATA";
  const auto source = ModelSource::open(*folder);
  ASSERT_TRUE(source);
  const KernelContext context;
  auto decoder = DecoderModel::load(context, **source, "float32", 512);
  ASSERT_TRUE(decoder) << decoder.error().message();
  const DecoderConfig& config = (*decoder)->config();
  const KvLayout layout = {.dtype = DType::f32,
                           .num_layers = config.num_layers(),
                           .num_kv_heads = kv_heads(config)->num_kv_heads,
                           .head_size = kv_heads(config)->head_size,
                           .block_size = 16};
  auto cache = Memory::reserve(32 * layout.block_bytes());
  ASSERT_TRUE(cache);
  std::vector<std::int32_t> table(32);
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::int32_t>(i);

  LogitsProcessor processor;
  Distribution distribution;
  int cases = 0;
  std::map<std::string, int> settings;
  for (const boost::json::object& line : read_json_lines(*folder + "/golden_distributions.jsonl")) {
    if (line.contains("header")) continue;
    SCOPED_TRACE(std::string(line.at("setting").as_string()));
    const std::vector<TokenId> prompt = ids_of(line.at("prompt_ids")), output = ids_of(line.at("output_ids"));
    std::vector<TokenId> ids = prompt;
    ids.insert(ids.end(), output.begin(), output.end());
    std::vector<std::int32_t> positions(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) positions[i] = static_cast<std::int32_t>(i);
    const auto count = static_cast<std::int32_t>(ids.size());
    const AttentionSequence sequence = {
        .query_start = 0, .num_queries = count, .context_len = count, .block_table = table.data()};
    const std::int32_t last = count - 1;
    ASSERT_TRUE((*decoder)
                    ->forward({.token_ids = ids,
                               .positions = positions,
                               .sequences = std::span(&sequence, 1),
                               .output_rows = std::span(&last, 1),
                               .layout = layout,
                               .cache = cache->data()})
                    .ok());
    std::vector<float> logits(static_cast<std::size_t>(config.vocab_size));
    ASSERT_TRUE((*decoder)->logits(0, 1, Buffer::of(logits.data(), config.vocab_size)).ok());
    const SamplingParams params = params_of(line.at("params").as_object());
    processor.process(params, prompt, output, logits);
    distribution.assign(context.level, logits, params);

    std::map<TokenId, double> got;
    for (const auto& [token, p] : distribution.probabilities()) got[token] = p;
    EXPECT_EQ(static_cast<std::int64_t>(got.size()), line.at("n_kept").to_number<std::int64_t>());
    for (const boost::json::value& entry : line.at("probs").as_array()) {
      const auto token = entry.as_array()[0].to_number<TokenId>();
      EXPECT_NEAR(got[token], entry.as_array()[1].to_number<double>(), 1e-5) << "token " << token;
    }
    ++cases;
    ++settings[std::string(line.at("setting").as_string())];
  }
  EXPECT_EQ(cases, 70);
  EXPECT_EQ(settings.size(), 14u);
}

}  // namespace
}  // namespace pagoda::testing
