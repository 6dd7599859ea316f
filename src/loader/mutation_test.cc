// Goal: no damage to a file does more than a clean error. Method: seeded byte flips, overwritten
// integers and truncations of valid files; what still opens must be readable to the last byte. Run under
// ASan and UBSan in the sanitizer builds; tests/fuzz goes on from here.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>

#include "loader/gguf.h"
#include "loader/model_source.h"
#include "loader/safetensors.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"
#include "models/describe.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

using testing::as_bytes;

std::string mutate(std::string bytes, std::size_t header, std::mt19937_64& rng) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(rng() % n); };
  for (std::size_t count = 1 + below(3); count > 0; --count) {
    if (bytes.empty()) break;
    const std::size_t at = below(std::min(header, bytes.size()));
    switch (below(4)) {
      case 0:
        bytes[at] = static_cast<char>(rng());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        break;
      case 2: {  // a count, length or offset at the edge of its range
        const std::uint64_t edges[] = {0,
                                       1,
                                       0x7FFFFFFF,
                                       0xFFFFFFFF,
                                       ~std::uint64_t{0},
                                       ~std::uint64_t{0} >> 1,
                                       bytes.size(),
                                       std::uint64_t{1} << 61};
        const std::uint64_t edge = edges[below(std::size(edges))];
        std::memcpy(bytes.data() + at, &edge,
                    std::min<std::size_t>(below(2) == 0 ? 4 : 8, bytes.size() - at));
        break;
      }
      default:
        bytes.resize(below(2) == 0 ? at : bytes.size() - below(bytes.size()));
        break;
    }
  }
  return bytes;
}

// The bytes before the first tensor's.
std::size_t header_bytes(const std::string& whole) {
  const Result<GgufFile> file = GgufFile::parse(as_bytes(whole));
  std::size_t bytes = whole.size();
  for (const FileTensor& tensor : file->tensor_list())
    bytes =
        std::min(bytes, static_cast<std::size_t>(reinterpret_cast<const char*>(tensor.data) - whole.data()));
  return bytes;
}

template <class Tensors>
unsigned touch(const Tensors& tensors) {
  unsigned sum = 0;
  for (const auto& [name, tensor] : tensors) {
    for (std::int64_t i = 0; i < tensor.bytes(); ++i) sum += std::to_integer<unsigned>(tensor.data[i]);
  }
  return sum;
}

TEST(Mutation, Gguf) {
  const std::string whole = testing::read_binary(testing::loader_fixture("all_types.gguf"));
  const std::size_t header = header_bytes(whole);
  std::mt19937_64 rng(1);
  int opened = 0;
  unsigned sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    // A heap copy of exactly this size, so that ASan sees the first byte too far.
    const std::string mutated = mutate(whole, header, rng);
    const std::vector<std::byte> bytes(as_bytes(mutated).begin(), as_bytes(mutated).end());
    const Result<GgufFile> file = GgufFile::parse(bytes);
    if (!file) {
      ASSERT_FALSE(file.error().message().empty());
      continue;
    }
    ++opened;
    sum += touch(file->tensors());
    const Result<ModelInfo> config = read_gguf_config(*file);
    sum += config ? static_cast<unsigned>(config->decoder.num_layers()) : 0u;
  }
  EXPECT_GT(opened, 500) << "mutations must not all die at the door";
  EXPECT_LT(opened, 9'500);
  EXPECT_NE(sum, 0u);
}

TEST(Mutation, Safetensors) {
  const std::string whole =
      testing::read_binary(testing::loader_fixture("sharded/model-00002-of-00002.safetensors"));
  ASSERT_TRUE(SafetensorsFile::parse(as_bytes(whole)));
  std::mt19937_64 rng(2);
  int opened = 0;
  unsigned sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string mutated = mutate(whole, whole.size(), rng);
    const std::vector<std::byte> bytes(as_bytes(mutated).begin(), as_bytes(mutated).end());
    const Result<SafetensorsFile> file = SafetensorsFile::parse(bytes);
    if (!file) continue;
    ++opened;
    sum += touch(file->tensors());
  }
  EXPECT_GT(opened, 50);
  EXPECT_LT(opened, 9'500);
  EXPECT_NE(sum, 0u);
}

TEST(Mutation, ConfigJson) {
  const std::string whole =
      R"({"architectures":["Qwen2ForCausalLM"],"model_type":"qwen2","hidden_size":64,"num_attention_heads":4,)"
      R"("num_key_value_heads":2,"num_hidden_layers":2,"rope_theta":1e6,"rope_scaling":{"type":"linear","factor":2.0},)"
      R"("use_sliding_window":true,"sliding_window":16,"max_window_layers":1,"eos_token_id":[1,2],"vocab_size":512})";
  ASSERT_TRUE(read_config_json(whole));
  std::mt19937_64 rng(3);
  int opened = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string mutated = mutate(whole, whole.size(), rng);
    if (read_config_json(mutated, mutated)) ++opened;
  }
  EXPECT_GT(opened, 50);
  EXPECT_LT(opened, 9'500);
}

// A quantised folder of every kind: what still opens can be brought in, or is refused.
TEST(Mutation, Quantized) {
  const testing::ScratchFolder scratch;
  std::mt19937_64 rng(5);
  int opened = 0, refused = 0;
  for (const auto& folder :
       std::filesystem::directory_iterator(PAGODA_SOURCE_DIR "/tests/fixtures/quantized")) {
    const std::string weights = testing::read_binary(folder.path() / "model.safetensors");
    const std::string config = testing::read_binary(folder.path() / "config.json");
    std::uint64_t header = 0;
    std::memcpy(&header, weights.data(), sizeof header);
    if (std::filesystem::exists(folder.path() / "hf_quant_config.json"))
      scratch.write("hf_quant_config.json", testing::read_binary(folder.path() / "hf_quant_config.json"));
    for (int i = 0; i < 60; ++i) {
      const bool of_config = i % 4 == 0;
      scratch.write("config.json", of_config ? mutate(config, config.size(), rng) : config);
      // Often in bytes of the tensors, too: indices, scales, descriptions.
      const std::size_t reach = i % 4 == 1 ? weights.size() : 8 + header;
      scratch.write("model.safetensors", of_config ? weights : mutate(weights, reach, rng));
      const auto source = ModelSource::open(scratch.path());
      if (!source) {
        EXPECT_FALSE(source.error().message().empty());
        ++refused;
        continue;
      }
      ++opened;
      for (const std::string& name : (*source)->tensor_names()) {
        const TensorView& tensor = *(*source)->find(name);
        if (!(*source)->bring_in(tensor).ok()) continue;
        (void)touch(std::map<std::string, TensorView>{{name, tensor}});
        (*source)->give_back(tensor);
      }
    }
    std::filesystem::remove(scratch.path() + "/hf_quant_config.json");
  }
  EXPECT_GT(opened, 20);
  EXPECT_GT(refused, 20);
}

// Whole files through the door that `pagoda inspect` uses.
TEST(Mutation, Describe) {
  const testing::ScratchFolder scratch;
  const std::string gguf = testing::read_binary(testing::loader_fixture("all_types.gguf"));
  const std::size_t header = header_bytes(gguf);
  const std::string safetensors =
      testing::read_binary(testing::loader_fixture("sharded/model-00002-of-00002.safetensors"));
  std::mt19937_64 rng(4);
  for (int i = 0; i < 500; ++i) {
    for (const std::string& path : {scratch.write("m.gguf", mutate(gguf, header, rng)),
                                    scratch.write("m.safetensors", mutate(safetensors, 200, rng))}) {
      const Result<Description> description = describe(path);
      if (description) {
        EXPECT_FALSE(describe_json(*description).empty());
        EXPECT_FALSE(describe_table(*description).empty());
      } else {
        EXPECT_EQ(description.error().message().find('\n'), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace pagoda
