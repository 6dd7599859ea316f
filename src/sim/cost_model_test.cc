// Cost models: the terms of a step against sums by hand, the names, and the refusal of bad files by field.
#include "sim/cost_model.h"

#include <boost/json.hpp>

#include "sim/test_support.h"

namespace pagoda {
namespace {

using sim_test::Batch;
using sim_test::plain_cost_model;

TEST(CostModel, StepIsTheSumOfItsParts) {
  CostModel model = plain_cost_model();
  model.attention_bytes_per_s = 1024 * 1000;  // a context token takes 1 ms
  model.step_overhead_s = 0.5;
  model.sequence_overhead_s = 0.25;
  model.token_overhead_s = 0.125;
  Batch batch;
  batch.add(99, 1);
  batch.add(49, 1);
  const double attention = (100 + 50) * 1e-3;
  EXPECT_NEAR(step_cost(model, batch.batch, 16).seconds, 0.010 + attention + 0.5 + 2 * 0.25 + 2 * 0.125,
              1e-12);
  batch.batch.swap_out.resize(3);
  model.swap_block_s = 0.001;
  const StepCost swapping = step_cost(model, batch.batch, 16);
  EXPECT_NEAR(swapping.swap_seconds, 3 * (0.001 + 16 * 1024 / 1e9), 1e-12);
}

TEST(CostModel, RooflineTurnsWhereComputingOvertakesReading) {
  const CostModel model = plain_cost_model();
  for (const std::size_t tokens : {1u, 10u, 11u, 100u}) {
    Batch batch;
    batch.add(0, tokens);
    EXPECT_NEAR(step_cost(model, batch.batch, 16).seconds, std::max(0.010, 0.001 * double(tokens)), 1e-9);
  }
}

TEST(CostModel, MeasuredPointsAreInterpolated) {
  CostModel model = plain_cost_model();
  model.linear_points = {{1, 0.1}, {3, 0.3}, {11, 0.7}};
  const auto seconds = [&](std::size_t tokens) {
    Batch batch;
    batch.add(0, tokens);
    return step_cost(model, batch.batch, 16).seconds;
  };
  EXPECT_NEAR(seconds(1), 0.1, 1e-9);
  EXPECT_NEAR(seconds(2), 0.2, 1e-9);
  EXPECT_NEAR(seconds(7), 0.5, 1e-9);
  EXPECT_NEAR(seconds(19), 1.1, 1e-9);
}

TEST(CostModel, RanksShareTheWorkAndPayForAllReduces) {
  CostModel model = plain_cost_model();
  Batch batch;
  batch.add(0, 100);
  const double alone = step_cost(model, batch.batch, 16).seconds;
  model.tensor_parallel_size = 2;
  model.link_latency_s = 0.001;
  const double bytes = 100.0 * 64 * 2;
  const double all_reduces = 2 * 2 * (0.001 + bytes / 1e9);
  EXPECT_NEAR(step_cost(model, batch.batch, 16).seconds, alone / 2 + all_reduces, 1e-9);
}

TEST(CostModel, PaddingCostsWhereItIsComputed) {
  CostModel model = plain_cost_model();
  model.linear_points = {{1, 1}, {101, 101}};
  model.sequence_overhead_s = 1000;
  Batch batch;
  batch.add(0, 10);
  const double alone = step_cost(model, batch.batch, 16).seconds;
  batch.batch.num_padded_tokens = 30;
  batch.batch.num_padded_sequences = 2;
  EXPECT_EQ(step_cost(model, batch.batch, 16).seconds, alone);
  model.computes_padding = true;
  // The ended sequences' rows go through the output head too, which is measured in seconds, not thousands.
  EXPECT_NEAR(step_cost(model, batch.batch, 16).seconds - alone, 30 + 2 * 1000, 1);
}

TEST(CostModel, NamedOnesHaveThePapersMemory) {
  const auto opt = named_cost_model("a100-40gb/opt-13b/tp1");
  ASSERT_TRUE(opt);
  EXPECT_EQ(opt->kv_bytes_per_token, 800 * 1024);                          // §3: 800 KB a token
  EXPECT_NEAR((opt->parameters + opt->head_parameters) * 2, 26e9, 0.5e9);  // Table 1
  EXPECT_NEAR(opt->kv_cache_bytes / (1 << 30), 12, 0.1);
  const auto large = named_cost_model("a100-80gb/opt-175b/tp8");
  ASSERT_TRUE(large);
  EXPECT_NEAR((large->parameters + large->head_parameters) * 2, 346e9, 5e9);
  EXPECT_NEAR(large->kv_cache_bytes / (1 << 30), 264, 1);
  for (const std::string& gpu : cost_model_gpus()) {
    for (const std::string& model : cost_model_models()) {
      const auto any = named_cost_model(concat(gpu, "/", model, "/tp1"));
      if (any) EXPECT_TRUE(validate(*any).ok()) << any->name;
    }
  }
}

TEST(CostModel, RequestsAndTheirSequencesCostApart) {
  CostModel model = plain_cost_model();
  model.request_overhead_s = 0.5;
  model.sequence_overhead_s = 0.125;
  Batch batch;
  const SamplingParams first, second;
  for (const SamplingParams* params : {&first, &first, &first, &second}) {
    batch.add(9, 1);
    batch.batch.sequences.back().spec.params = params;
  }
  CostModel free = model;
  free.request_overhead_s = free.sequence_overhead_s = 0;
  EXPECT_NEAR(step_cost(model, batch.batch, 16).seconds - step_cost(free, batch.batch, 16).seconds,
              2 * 0.5 + 4 * 0.125, 1e-12);
}

TEST(CostModel, OfAWindowItReadsWhatItSees) {
  CostModel model = plain_cost_model();
  model.attention_bytes_per_s = 1024 * 1000;  // a context token takes 1 ms
  const std::vector<KvGroup> groups = {{.pages_per_row = 1},
                                       {.kind = KvKind::window, .window = 100, .pages_per_row = 4}};
  const auto attention = [&](std::int32_t before, std::int32_t count) {
    Batch batch;
    batch.add(before, count);
    return step_cost(model, batch.batch, groups).seconds - std::max(0.010, 0.001 * count);
  };
  EXPECT_NEAR(attention(49, 1), 0.050, 1e-9);                          // all of it
  EXPECT_NEAR(attention(999, 1), 0.001 * (1000 + 4 * 100) / 5, 1e-9);  // a fifth of the layers sees all
}

TEST(CostModel, PagedReadsAreSlowerByBlockSize) {
  CostModel model = plain_cost_model();
  model.attention_bytes_per_s = 1024 * 1000;  // a context token takes 1 ms
  model.paged_read_efficiency = {{2, 0.25}, {16, 0.5}};
  Batch batch;
  batch.add(99, 1);
  const auto attention = [&](std::int32_t block_size, bool paged) {
    return step_cost(model, batch.batch, block_size, paged).seconds - 0.010;
  };
  EXPECT_NEAR(attention(16, false), 0.100, 1e-9);
  for (const std::int32_t size : {1, 2, 8, 15}) EXPECT_NEAR(attention(size, true), 0.400, 1e-9) << size;
  for (const std::int32_t size : {16, 17, 256}) EXPECT_NEAR(attention(size, true), 0.200, 1e-9) << size;
}

// The two bars of Fig. 13 that the paper's steps are taken from come out again.
TEST(CostModel, ThePapersStepsTakeWhatFigure13Says) {
  const auto model = named_cost_model("paper/opt-13b");
  ASSERT_TRUE(model) << model.error().message();
  const auto seconds = [&](int requests, std::int32_t context, int prompt_rows) {
    std::vector<SamplingParams> params(static_cast<std::size_t>(requests));
    Batch batch;
    for (const SamplingParams& own : params) {
      batch.add(context - 1, 1);
      batch.batch.sequences.back().spec.params = &own;
    }
    batch.batch.num_tokens += prompt_rows;
    return step_cost(*model, batch.batch, 16).seconds;
  };
  EXPECT_NEAR(seconds(30, 459, 14) * 30.42 / 30, 30.42 / (2 * 337.99), 0.0012);
  EXPECT_NEAR(seconds(132, 76, 43), 132.44 / (30 * 58.45), 0.0012);
  EXPECT_NEAR(named_cost_model("paper/opt-66b")->step_overhead_s / model->step_overhead_s, 64.0 / 40, 1e-9);
}

TEST(CostModel, BoundsAndPoorFitsAreSaid) {
  EXPECT_NE(cost_model_warning(*named_cost_model("a100-40gb/opt-13b/tp1")).find("an upper bound"),
            std::string::npos);
  EXPECT_EQ(cost_model_warning(*named_cost_model("paper/opt-13b")), "");
  CostModel fitted = plain_cost_model();
  fitted.linear_points = {{1, 0.1}};
  fitted.fit_error = 0.05;
  EXPECT_EQ(cost_model_warning(fitted), "");
  fitted.fit_error = 0.25;
  EXPECT_NE(cost_model_warning(fitted).find("off by 25 %"), std::string::npos);
}

TEST(CostModel, UnknownNamesListTheKnown) {
  for (const char* name :
       {"", "a100", "a100-40gb/opt-13b", "a100-40gb/opt-13b/tp", "a100-40gb/opt-13b/tp0",
        "a100-40gb/opt-13b/tp1x", "b200/opt-13b/tp1", "a100-40gb/bloom/tp1", "paper/opt-30b"}) {
    const auto model = load_cost_model(name);
    ASSERT_FALSE(model) << name;
    EXPECT_NE(model.error().message().find("opt-13b"), std::string::npos);
  }
  EXPECT_NE(named_cost_model("a100-40gb/opt-13b/tp3").error().message().find("40 heads"), std::string::npos);
  EXPECT_NE(named_cost_model("l4/opt-66b/tp1").error().message().find("no memory"), std::string::npos);
}

TEST(CostModel, JsonComesBackTheSame) {
  CostModel model = *named_cost_model("a100-40gb/opt-66b/tp4");
  model.linear_points = {{1, 0.01}, {100, 0.5}};
  model.decode_scatter = {0.9, 1, 1.25};
  model.prompt_scatter = {1, 2};
  model.scatter_correlation = 0.5;
  model.scatter_share = 0.75;
  model.request_overhead_s = 0.001;
  model.fit_error = 0.04;
  model.fitted_steps = 900;
  model.fitted_sequences = 16;
  model.max_num_batched_tokens = 256;
  model.outside_s = 0.002;
  model.paged_read_efficiency = {{1, 0.25}, {16, 1}};
  const std::string text = cost_model_json(model);
  const auto parsed = parse_cost_model(text);
  ASSERT_TRUE(parsed) << parsed.error().message();
  EXPECT_EQ(cost_model_json(*parsed), text);
}

TEST(CostModel, BadFilesAreRefusedByField) {
  const auto value = boost::json::parse(cost_model_json(plain_cost_model()));
  const auto refused = [&](const char* field, const boost::json::value& changed) {
    boost::json::object object = value.as_object();
    object[field] = changed;
    const auto parsed = parse_cost_model(boost::json::serialize(object));
    ASSERT_FALSE(parsed) << field;
    EXPECT_EQ(parsed.error().code(), StatusCode::invalid_argument);
    EXPECT_NE(parsed.error().message().find(field), std::string::npos) << parsed.error().message();
  };
  for (const auto& [key, entry] : value.as_object()) {
    if (key == "name") continue;
    refused(std::string(key).c_str(), "text");
    refused(std::string(key).c_str(), nullptr);
    refused(std::string(key).c_str(), -1);
    boost::json::object object = value.as_object();
    object.erase(key);
    const auto parsed = parse_cost_model(boost::json::serialize(object));
    ASSERT_FALSE(parsed) << key;
    EXPECT_NE(parsed.error().message().find(concat(std::string(key), " is missing")), std::string::npos);
  }
  refused("num_layers", 1.5);
  refused("hidden_size", 1e30);
  refused("flops_per_s", 0);
  refused("speed", 1);
  refused("linear_points", boost::json::parse("[[1]]"));
  refused("linear_points", boost::json::parse("[[1, 1], [1, 2]]"));
  refused("linear_points", boost::json::parse("[[1, 1], [2, 0.5]]"));
  refused("request_overhead_s", -1);
  refused("request_overhead_s", "1");
  refused("paged_read_efficiency", boost::json::parse("[[16, 1.5]]"));
  refused("paged_read_efficiency", boost::json::parse("[[16, 1], [8, 1]]"));
  refused("paged_read_efficiency", boost::json::parse("[[1.5, 1]]"));
  refused("paged_read_efficiency", boost::json::parse("[16]"));
  refused("decode_scatter", 1);
  refused("decode_scatter", boost::json::parse("[1]"));
  refused("prompt_scatter", boost::json::parse("[1, 0.9]"));
  refused("prompt_scatter", boost::json::parse("[0, 1]"));
  refused("prompt_scatter", boost::json::parse("[1, \"x\"]"));
  refused("scatter_correlation", 1);
  refused("computes_padding", 1);
  for (const char* text : {"", "[]", "{", "nonsense", "{\"num_layers\": 1e400}"})
    EXPECT_FALSE(parse_cost_model(text)) << text;
}

}  // namespace
}  // namespace pagoda
