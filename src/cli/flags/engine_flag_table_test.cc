#include "cli/flags/engine_flag_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "base/strings.h"
#include "cli/assembly/devices.h"
#include "cli/assembly/open_devices.h"
#include "cli/flags/environment.h"
#include "cli/flags/parse_command_line.h"
#include "cli/flags/peer_flags.h"
#include "cli/flags/store_flags.h"

namespace pagoda {
namespace {

struct Parsed {
  EngineFlags flags;
  std::vector<std::string> ignored;
  std::string error;  // empty: parsed
};

Parsed parse(std::vector<std::string> arguments) {
  Parsed parsed;
  Command command{.name = "test", .summary = "", .flags = engine_flag_table(parsed.flags)};
  std::vector<Flag> more = peer_flags(parsed.ignored);
  std::move(more.begin(), more.end(), std::back_inserter(command.flags));
  const auto line = parse_command_line(command, std::move(arguments));
  const Status status = line ? store_flags(*line, [](const char*) { return std::string(); }) : line.error();
  if (!status.ok()) parsed.error = status.message();
  return parsed;
}

TEST(EngineFlags, DefaultsStayWithoutFlags) {
  const Parsed parsed = parse({});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.flags.server.port, 8000);
  EXPECT_EQ(parsed.flags.block_size, 16);
  EXPECT_TRUE(parsed.flags.enable_prefix_caching);
  EXPECT_FALSE(parsed.flags.max_model_len.has_value());
  EXPECT_FALSE(parsed.flags.kv_cache_memory_bytes.has_value());
  EXPECT_TRUE(parsed.ignored.empty());
}

TEST(EngineFlags, AdaptersByLlamaServersNames) {
  const Parsed parsed =
      parse({"--lora", "a,b", "--lora-scaled", "c:0.5,d:-2", "--lora", "org/e", "--lora-scaled=x:y:1e-1"});
  EXPECT_EQ(parsed.error, "");
  std::string all;
  for (const AdapterFlag& each : parsed.flags.adapters) all += concat(each.path, " ", each.scale, "; ");
  EXPECT_EQ(all, "a 1; b 1; org/e 1; c 0.5; d -2; x:y 0.1; ");
  for (const std::string bad : {"a", "a:", ":2", "a:b", "a:1x", "a:nan", "a:1e9"})
    EXPECT_NE(parse({"--lora-scaled", bad}).error.find("PATH:SCALE"), std::string::npos) << bad;
}

TEST(EngineFlags, ReadsEach) {
  const Parsed parsed = parse({"model.gguf",
                               "--host=0.0.0.0",
                               "--port",
                               "0",
                               "--dtype",
                               "float32",
                               "--kv-cache-dtype",
                               "bfloat16",
                               "--kv-cache-memory-bytes",
                               "4GiB",
                               "--block-size",
                               "32",
                               "--max-num-seqs",
                               "64",
                               "--max-num-batched-tokens",
                               "2k",
                               "--max-model-len",
                               "8K",
                               "--threads",
                               "2",
                               "--no-enable-prefix-caching",
                               "--no-enable-chunked-prefill",
                               "--seed",
                               "18",
                               "--api-key",
                               "a",
                               "--api-key",
                               "b",
                               "--served-model-name",
                               "x",
                               "--scheduling-policy",
                               "priority",
                               "--allowed-origins",
                               R"(["http://a", "http://b"])",
                               "--shutdown-timeout",
                               "0.5",
                               "--disable-log-stats"});
  ASSERT_EQ(parsed.error, "");
  const EngineFlags& flags = parsed.flags;
  EXPECT_EQ(flags.model, "model.gguf");
  EXPECT_EQ(flags.server.host, "0.0.0.0");
  EXPECT_EQ(flags.server.port, 0);
  EXPECT_EQ(flags.dtype, "float32");
  EXPECT_EQ(flags.kv_cache_dtype, "bfloat16");
  EXPECT_EQ(flags.kv_cache_memory_bytes, std::int64_t{4} << 30);
  EXPECT_EQ(flags.block_size, 32);
  EXPECT_EQ(flags.max_num_seqs, 64);
  EXPECT_EQ(flags.max_num_batched_tokens, 2000);
  EXPECT_EQ(flags.max_model_len, 8192);
  EXPECT_EQ(flags.threads, 2);
  EXPECT_FALSE(flags.enable_prefix_caching);
  EXPECT_FALSE(flags.enable_chunked_prefill);
  EXPECT_EQ(flags.seed, 18u);
  EXPECT_EQ(flags.server.api_keys, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(flags.served_model_names, std::vector<std::string>{"x"});
  EXPECT_EQ(flags.scheduling_policy, "priority");
  EXPECT_EQ(flags.server.allowed_origins, (std::vector<std::string>{"http://a", "http://b"}));
  EXPECT_EQ(flags.server.shutdown_timeout_s, 0.5);
  EXPECT_TRUE(flags.disable_log_stats);
}

TEST(EngineFlags, MaxModelLenCanBeAuto) {
  EXPECT_EQ(parse({"--max-model-len", "auto"}).flags.max_model_len, kMaxModelLenAuto);
  EXPECT_EQ(parse({"--max-model-len", "-1"}).flags.max_model_len, kMaxModelLenAuto);
}

TEST(EngineFlags, SwapSpaceIsInGibibytesAsInVllm) {
  EXPECT_EQ(parse({"--swap-space", "4"}).flags.swap_space_bytes, std::int64_t{4} << 30);
  EXPECT_EQ(parse({"--swap-space", "0.5"}).flags.swap_space_bytes, std::int64_t{1} << 29);
  EXPECT_EQ(parse({"--swap-space", "64MiB"}).flags.swap_space_bytes, std::int64_t{64} << 20);
  EXPECT_EQ(parse({"--swap-space", "much"}).error, "--swap-space: 'much' is not a size");
}

TEST(EngineFlags, ARepeatableFlagLeavesTheModelAlone) {
  const Parsed parsed = parse({"--api-key", "k", "--served-model-name", "n", "model.gguf"});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.flags.model, "model.gguf");
  EXPECT_EQ(parsed.flags.served_model_names, std::vector<std::string>{"n"});
  // A single word is the name, and a MODEL that is given stays.
  EXPECT_EQ(parse({"--served-model-name", "n.gguf"}).flags.model, "");
  EXPECT_EQ(parse({"m", "--served-model-name", "a", "b.gguf"}).flags.served_model_names.size(), 2u);
  EXPECT_EQ(parse({"-fa", "model.gguf"}).flags.model, "model.gguf");
}

TEST(EngineFlags, SeveralNamesStandBehindOneFlag) {
  using Words = std::vector<std::string>;
  for (const Words& words :
       {Words{"m.gguf", "--served-model-name", "a", "b", "c-*", "--seed", "1"},
        Words{"--model", "m.gguf", "--served_model_name", "a", "b", "c-*"},
        Words{"--served-model-name", "a", "b", "c-*", "m.gguf"},
        Words{"--served-model-name", "a", "--served-model-name", "b", "c-*", "m.gguf"}}) {
    const Parsed parsed = parse(words);
    EXPECT_EQ(parsed.error, "");
    EXPECT_EQ(parsed.flags.model, "m.gguf");
    EXPECT_EQ(parsed.flags.served_model_names, (Words{"a", "b", "c-*"}));
  }
}

TEST(EngineFlags, RefusesWhatIsOutOfRange) {
  const std::map<std::vector<std::string>, std::string> cases = {
      {{"--port", "65536"}, "--port: 65536 is not between 0 and 65535"},
      {{"--port", "http"}, "--port: 'http' is not a whole number"},
      {{"--port", "8000x"}, "--port: '8000x' is not a whole number"},
      {{"--block-size", "0"}, "--block-size: 0 is not between 1 and 256"},
      {{"--block-size", "16.5"}, "--block-size: '16.5' is not a whole number"},
      {{"--api-key", ""}, "--api-key: must not be empty"},
      {{"--served-model-name", ""}, "--served-model-name: must not be empty"},
      {{"--block-size", "257"}, "--block-size: 257 is not between 1 and 256"},
      {{"--max-num-seqs", "0"}, "--max-num-seqs: 0 is less than 1"},
      {{"--max-model-len", "x"}, "--max-model-len: 'x' is neither a number of tokens nor auto"},
      {{"--dtype", "float64"}, "--dtype: 'float64' is not one of auto, float32, bfloat16, float16, int8"},
      {{"--kv-cache-dtype", "fp8_e5m2"},
       "--kv-cache-dtype: 'fp8_e5m2' is not supported; fp8 and fp8_e4m3 are"},
      {{"--kv-cache-dtype", "int4"},
       "--kv-cache-dtype: 'int4' is not one of auto, float32, bfloat16, float16, int8, fp8, fp8_e4m3"},
      {{"--kv-cache-memory-bytes", "lots"}, "--kv-cache-memory-bytes: 'lots' is not a whole number"},
      {{"--kv-cache-memory-fraction", "1.5"}, "--kv-cache-memory-fraction: 1.5 is not between 0.001 and 1"},
      {{"--kv-cache-memory-fraction", "nan"}, "--kv-cache-memory-fraction: 'nan' is not a number"},
      {{"--tensor-parallel-size", "0"}, "--tensor-parallel-size: 0 is not between 1 and 64"},
      {{"--tensor-parallel-size", "65"}, "--tensor-parallel-size: 65 is not between 1 and 64"},
      {{"--tensor-parallel-size", "two"}, "--tensor-parallel-size: 'two' is not a whole number"},
      {{"--rank-timeout", "-1"}, "--rank-timeout: -1 is not between 0 and 86400"},
      {{"--lora-modules", "a"}, "--lora-modules: 'a' is not NAME=PATH"},
      {{"--max-lora-rank", "24"}, "--max-lora-rank: '24' is none of 1, 8, 16, 32, 64, 128, 256, 320 and 512"},
      {{"--max-cpu-loras", "0"}, "--max-cpu-loras: 0 is not between 1 and 4096"},
      {{"--pp", "2"},
       "--pipeline-parallel-size: '2' is not supported: only 1 is supported; see --tensor-parallel-size"},
      {{"-ctk", "q8_0"}, "--cache-type-k: see --kv-cache-dtype"},
      {{"--temperature", "-1"}, "--temperature: -1 is not between 0 and 100"},
      {{"--root-path", "m"}, "--root-path: must begin with /"},
      {{"--api-key", "a", "org/name"},
       "--api-key: the last value could be MODEL: put MODEL before this flag"},
  };
  for (const auto& [arguments, message] : cases) EXPECT_EQ(parse(arguments).error, message);
}

// vLLM's two forms of a module, several in a flag and several flags.
TEST(EngineFlags, AdaptersThatRequestsChoose) {
  const Parsed parsed = parse({"--enable-lora", "--lora-modules", "a=/x/a",
                               R"({"name":"b","path":"p=q","base_model_name":"m"})", "--lora-modules=c=d=e",
                               "--max-loras", "100", "--max-lora-rank", "320"});
  ASSERT_EQ(parsed.error, "");
  const LoraFlags& lora = parsed.flags.lora;
  EXPECT_TRUE(lora.enable && !lora.runtime_updating);
  std::string all;
  for (const LoraModule& each : lora.modules)
    all += concat(each.name, " ", each.path, " ", each.base_model_name, "; ");
  EXPECT_EQ(all, "a /x/a ; b p=q m; c d=e ; ");
  EXPECT_EQ(lora.max_rank, 320);
  EXPECT_EQ(lora.max_loaded(), 100) << "as many as may run together";
  EXPECT_EQ(LoraFlags{}.max_loaded(), 64);
  LoraFlags few;
  few.max_cpu_loras = 3;
  EXPECT_EQ(few.max_together(false), 3);
  EXPECT_EQ(few.max_together(true), 3) << "no more than may be loaded";
  EXPECT_EQ(LoraFlags{}.max_together(false), 64);
  EXPECT_EQ(LoraFlags{}.max_together(true), 8);
  EXPECT_EQ(lora.max_together(true), 100);
  const std::pair<const char*, const char*> wrong[] = {
      {"a", "'a' is not NAME=PATH"},
      {"=a", "'=a' lacks the adapter's name"},
      {"a=", "'a=' lacks the adapter's path"},
      {R"({"name":"a"})", R"('{"name":"a"}' lacks the adapter's path)"},
      {R"({"name":1,"path":"p"})", "'name' must be a string"},
      {R"({"name":"a","path":"p","rank":8})", "'rank' is none of name, path and base_model_name"},
      {"{", R"(must be NAME=PATH, or JSON such as {"name":"sql","path":"/adapters/sql"})"},
  };
  for (const auto& [value, message] : wrong)
    EXPECT_EQ(parse({"--lora-modules", value}).error, concat("--lora-modules: ", message));
}

TEST(EngineFlags, FlagsWithoutEffectAreNamedOnce) {
  const Parsed accepted = parse({"--mlock", "--mlock", "-ngl", "99", "--no-mmap", "-fa", "-O3",
                                 "--tensor-parallel-size", "1", "--cpu-offload-gb", "0"});
  EXPECT_EQ(accepted.error, "");
  EXPECT_EQ(ignored_flags_text(accepted.ignored),
            "no effect here: --compilation-config, --n-gpu-layers, --flash-attn, --mlock, --no-mmap");
}

TEST(EngineFlags, AGpuHasANumber) {
  EXPECT_EQ(parse({"--device", "emulated"}).flags.device, "emulated");
  const Parsed second = parse({"--device", "cuda:1"});
  EXPECT_EQ(second.flags.device, "cuda");
  EXPECT_EQ(second.flags.device_indices, std::vector<std::int32_t>{1});
  EXPECT_EQ(parse({"--device", "cuda:1", "--device", "cuda"}).flags.device_indices.size(), 0);
  EXPECT_EQ(parse({"--device", "cuda:2,0"}).flags.device_indices, (std::vector<std::int32_t>{2, 0}));
  EXPECT_EQ(parse({"--device", "cuda:2,2"}).error, "--device: 'cuda:2,2' names GPU 2 twice");
  for (const char* wrong : {"gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1000", "cuda:0,", "cpu:0", ""})
    EXPECT_EQ(parse({"--device", wrong}).error,
              concat("--device: '", wrong, "' is not one of auto, cpu, cuda, cuda:N, cuda:N,N, emulated"));
}

// Flags that mean nothing on the CPU are named there; a device does as they say, or refuses them.
TEST(EngineFlags, AGpusFlagsAreAnsweredByTheDevice) {
  const auto answer = [](std::vector<std::string> arguments) {
    Parsed parsed = parse(std::move(arguments));
    const Status status = answer_gpu_flags(parsed.flags, parsed.ignored);
    return parsed.error + status.message() + ignored_flags_text(parsed.ignored);
  };
  EXPECT_EQ(answer({"--gpu-memory-utilization", "0.9", "--num-gpu-blocks-override", "8"}),
            "no effect here: --gpu-memory-utilization, --num-gpu-blocks-override");
  EXPECT_EQ(answer({"--gpu-memory-utilization", "0.9", "--device", "emulated"}), "");
  EXPECT_EQ(answer({"--gpu-memory-utilization", "90", "--device", "emulated"}),
            "--gpu-memory-utilization: 90 is not between 0 and 1");
  EXPECT_EQ(answer({"--cpu-offload-gb", "4"}), "no effect here: --cpu-offload-gb");
  EXPECT_TRUE(answer({"--cpu-offload-gb", "4", "--device", "emulated"})
                  .starts_with("--device emulated: --cpu-offload-gb: all weights stay on the device"));
  EXPECT_EQ(answer({"--cpu-offload-gb", "0", "--device", "emulated"}), "");
  EXPECT_EQ(answer({"--no-calculate-kv-scales", "--device", "emulated"}), "");
  EXPECT_EQ(answer({"--enforce-eager"}), "no effect here: --enforce-eager");
  EXPECT_EQ(answer({"--no-enforce-eager"}), "");
  const Parsed eager = parse({"--enforce-eager", "--device-graphs", "check", "--device", "emulated"});
  EXPECT_EQ(device_kernels(eager.flags).graphs, device_runner::GraphUse::off);
  EXPECT_EQ(device_kernels(parse({"--device-graphs", "check"}).flags).graphs, device_runner::GraphUse::check);
}

// Each row starts a server, or is refused with its reason: none is unknown, none clashes with another row.
TEST(EngineFlags, EveryFlagOfThePeersIsAnswered) {
  for (const PeerFlag& flag : peer_flag_table()) {
    std::string_view names = flag.names;
    while (!names.empty()) {
      const std::string name(names.substr(0, names.find(' ')));
      names.remove_prefix(std::min(name.size() + 1, names.size()));
      SCOPED_TRACE(name);
      std::vector<std::string> arguments = {(name.size() == 1 ? "-" : "--") + name};
      if (flag.shape != FlagValue::Shape::on && flag.shape != FlagValue::Shape::on_off)
        arguments.emplace_back(
            flag.rule == PeerFlag::Rule::only ? flag.accepted.substr(0, flag.accepted.find(' ')) : "7");
      const std::string error = parse(arguments).error;
      if (flag.rule == PeerFlag::Rule::refused)
        EXPECT_TRUE(error.ends_with(flag.why) && !flag.why.empty()) << error;
      else
        EXPECT_EQ(error, "");
      if (flag.rule == PeerFlag::Rule::only) {
        arguments.back() = "nonsense";
        EXPECT_NE(parse(arguments).error.find(flag.why), std::string::npos);
      }
    }
  }
}

// As Mistral's model cards have it, and old ones of vLLM.
TEST(EngineFlags, ALineOfAModelCard) {
  EXPECT_EQ(parse({"mistralai/Mistral-Small-3.2-24B-Instruct-2506", "--tokenizer_mode", "mistral",
                   "--config_format", "mistral", "--load_format", "mistral", "--tool-call-parser", "mistral",
                   "--enable-auto-tool-choice", "--limit-mm-per-prompt", R"({"image":10})",
                   "--tensor-parallel-size", "2"})
                .error,
            "");
  EXPECT_EQ(parse({"Qwen/QwQ-32B", "--enable-reasoning", "--reasoning-parser", "deepseek_r1",
                   "--use-v2-block-manager", "--num-scheduler-steps", "8", "--disable-log-requests",
                   "--load-format", "bitsandbytes", "--quantization", "bitsandbytes"})
                .error,
            "");
}

// A command line of llama-server.
TEST(EngineFlags, LlamaServersNamesOfOurFlags) {
  const Parsed parsed = parse({"-m",
                               "m.gguf",
                               "-c",
                               "4096",
                               "-np",
                               "4",
                               "-t",
                               "2",
                               "--alias",
                               "small",
                               "--chat-template-file",
                               "t.jinja",
                               "--temp",
                               "0.5",
                               "--top-k",
                               "20",
                               "--repeat-penalty",
                               "1.1",
                               "-b",
                               "512",
                               "--no-webui",
                               "-v",
                               "--api-prefix",
                               "/m/"});
  ASSERT_EQ(parsed.error, "");
  const EngineFlags& flags = parsed.flags;
  EXPECT_EQ(flags.model, "m.gguf");
  EXPECT_EQ(flags.max_model_len, 4096);
  EXPECT_EQ(flags.max_num_seqs, 4);
  EXPECT_EQ(flags.threads, 2);
  EXPECT_EQ(flags.served_model_names, std::vector<std::string>{"small"});
  EXPECT_EQ(flags.chat_template, "t.jinja");
  EXPECT_EQ(flags.sampling.temperature, 0.5);
  EXPECT_EQ(flags.sampling.top_k, 20);
  EXPECT_EQ(flags.sampling.repetition_penalty, 1.1);
  EXPECT_EQ(flags.max_num_batched_tokens, 512);
  EXPECT_FALSE(flags.server.page);
  EXPECT_EQ(flags.server.log_level, "debug");
  EXPECT_EQ(flags.server.root_path, "/m");
  EXPECT_FALSE(parse({"-c", "0"}).flags.max_model_len.has_value());
  EXPECT_EQ(parse({"--embeddings"}).flags.runner, "pooling");
  EXPECT_EQ(parse({"--pooling", "cls"}).flags.pooler_config, R"({"pooling_type":"CLS"})");
  EXPECT_NE(parse({"--pooling", "rank"}).error, "");
  EXPECT_EQ(parse({"--reasoning-format", "auto"}).error, "");
  EXPECT_EQ(parse({"--reasoning-budget", "-1"}).error, "");
  EXPECT_NE(parse({"--reasoning-budget", "0"}).error.find("enable_thinking"), std::string::npos);
  EXPECT_NE(parse({"--reasoning-format", "none"}).error.find("--reasoning-parser"), std::string::npos);
}

// As the model cards of Qwen have it.
TEST(EngineFlags, RopeScalingMayBeAnObject) {
  const Parsed yarn = parse({"--rope-scaling",
                             R"({"rope_type":"yarn","factor":4.0,"original_max_position_embeddings":32768})",
                             "--max-model-len", "131072"});
  ASSERT_EQ(yarn.error, "");
  EXPECT_EQ(yarn.flags.rope.scaling, "yarn");
  EXPECT_EQ(yarn.flags.rope.scale, 4);
  EXPECT_EQ(yarn.flags.rope.yarn_original, 32768);
  const RopeFlags more = parse({"--rope-scaling", R"({"type":"linear","factor":2,"beta_fast":8,"beta_slow":2,
      "attention_factor":1.5,"rope_theta":1e6,"extrapolation_factor":null})"})
                             .flags.rope;
  EXPECT_EQ(more.scaling, "linear");
  EXPECT_EQ(more.scale, 2);
  EXPECT_EQ(more.yarn_beta_fast, 8);
  EXPECT_EQ(more.yarn_beta_slow, 2);
  EXPECT_EQ(more.yarn_scale, 1.5);
  EXPECT_EQ(more.freq_base, 1e6);
  EXPECT_EQ(parse({"--rope-scaling", R"({"rope_type":"default"})"}).flags.rope.scaling, "none");
  EXPECT_EQ(parse({"--rope-theta", "1000000"}).flags.rope.freq_base, 1e6);
  for (const auto& [value, why] : std::map<std::string, std::string>{
           {R"({"rope_type":"dynamic","factor":2})",
            "'rope_type' is not one of default, linear, yarn; see --hf-overrides"},
           {R"({"factor":"4"})", "'factor' must be a positive number"},
           {R"({"factor":0})", "'factor' must be a positive number"},
           {R"({"mrope_section":[16,24,24]})", "'mrope_section' is not known here; see --hf-overrides"},
           {R"({"short_factor":2})", "'short_factor' is not known here; see --hf-overrides"},
           {R"({"original_max_position_embeddings":0.5})",
            "'original_max_position_embeddings' must be a whole number"},
           {"{", "'{' is not a JSON object"},
           {"dynamic", "'dynamic' is not one of none, linear, yarn"}})
    EXPECT_EQ(parse({"--rope-scaling", value}).error, "--rope-scaling: " + why);
}

TEST(EngineFlags, DottedNamesMakeJson) {
  const Parsed parsed =
      parse({"--hf_overrides.rope_scaling.factor", "2", "--hf-overrides.architectures=[\"A\"]",
             "--default-chat-template-kwargs.mode", "short"});
  ASSERT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.flags.hf_overrides, R"({"rope_scaling":{"factor":2},"architectures":["A"]})");
  EXPECT_EQ(parsed.flags.default_chat_template_kwargs, R"({"mode":"short"})");
  EXPECT_NE(parse({"--hf-overrides.", "2"}).error, "");
}

TEST(EngineFlags, SeveralKeysInOneFlagOrMore) {
  EXPECT_EQ(parse({"--api-key", "a", "b", "--api-key", "c"}).flags.server.api_keys,
            (std::vector<std::string>{"a", "b", "c"}));
}

TEST(Environment, FillsWhatNoFlagSaid) {
  std::map<std::string, std::string> values = {
      {"VLLM_API_KEY", "v"}, {"VLLM_CPU_KVCACHE_SPACE", "2"}, {"OMP_NUM_THREADS", "3"}};
  const Environment environment = [&](const char* name) { return values[name]; };
  EngineFlags flags;
  ASSERT_TRUE(apply_environment(environment, flags).ok());
  EXPECT_EQ(flags.server.api_keys, std::vector<std::string>{"v"});
  EXPECT_EQ(flags.kv_cache_memory_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(flags.threads, 3);

  EngineFlags given;
  given.server.api_keys = {"k"};
  given.kv_cache_memory_bytes = 5;
  given.threads = 1;
  values["PAGODA_API_KEY"] = "p";
  ASSERT_TRUE(apply_environment(environment, given).ok());
  EXPECT_EQ(given.server.api_keys, std::vector<std::string>{"k"});
  EXPECT_EQ(given.kv_cache_memory_bytes, 5);
  EXPECT_EQ(given.threads, 1);

  values["OMP_NUM_THREADS"] = "many";
  EngineFlags bad;
  EXPECT_EQ(apply_environment(environment, bad).message(),
            "OMP_NUM_THREADS: 'many' is not between 1 and 1024");
}

TEST(Environment, VariablesOfLlamaCppAreNamedWithOurs) {
  Command root;
  root.flags.push_back({.name = "max-model-len", .aliases = {"--ctx-size"}, .environment = true});
  root.flags.push_back({.name = "mlock"});
  EXPECT_EQ(
      unknown_variables({"LLAMA_ARG_CTX_SIZE", "LLAMA_ARG_MLOCK", "LLAMA_CACHE", "HOME"}, root),
      (std::vector<std::string>{"the environment's LLAMA_ARG_CTX_SIZE sets nothing; see PAGODA_MAX_MODEL_LEN",
                                "the environment's LLAMA_ARG_MLOCK sets nothing"}));
  const Environment key = [](const char* name) { return std::string(name) == "LLAMA_API_KEY" ? "k" : ""; };
  EngineFlags flags;
  ASSERT_TRUE(apply_environment(key, flags).ok());
  EXPECT_EQ(flags.server.api_keys, std::vector<std::string>{"k"}) << "a server without a key would be open";
}

TEST(Environment, MpirunTellsTheRankOfTheMachine) {
  std::map<std::string, std::string> values = {
      {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "3"}};
  const Environment environment = [&](const char* name) { return values[name]; };
  const auto local_rank = [&] {
    EngineFlags flags;
    EXPECT_TRUE(apply_environment(environment, flags).ok());
    return flags.mpi_local_rank;
  };
  EXPECT_EQ(local_rank(), 1);
  values["OMPI_COMM_WORLD_LOCAL_RANK"] = "0";
  EXPECT_EQ(local_rank(), 0);
  values["OMPI_COMM_WORLD_LOCAL_RANK"] = "1";
  EXPECT_EQ(local_rank(), 1);
  values["OMPI_COMM_WORLD_LOCAL_RANK"] = "9";  // more than there are
  EXPECT_EQ(local_rank(), 1);
  values["OMPI_COMM_WORLD_LOCAL_RANK"] = "x";
  EngineFlags flags;
  EXPECT_FALSE(apply_environment(environment, flags).ok());
}

}  // namespace
}  // namespace pagoda
