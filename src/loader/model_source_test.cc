#include "loader/model_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <boost/json.hpp>

#include "base/strings.h"
#include "loader/hf_source.h"
#include "loader/hub_cache.h"
#include "loader/model_files.h"
#include "loader/safetensors.h"
#include "loader/test_files.h"
#include "loader/test_gguf.h"
#include "models/read_config.h"

namespace pagoda {
namespace {

using testing::GgufBuilder;
using testing::loader_fixture;
using testing::read_binary;
using testing::ScratchFolder;

void expect_source_refused(const std::string& model, std::string_view why, const HubPaths& hub = {}) {
  const Result<std::unique_ptr<ModelSource>> source = ModelSource::open(model, hub);
  ASSERT_FALSE(source) << model;
  EXPECT_NE(source.error().message().find(why), std::string::npos) << source.error().message();
  EXPECT_EQ(source.error().message().find('\n'), std::string::npos);
}

std::string hex(const std::byte* data, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) {
    constexpr char kDigits[] = "0123456789abcdef";
    out += kDigits[std::to_integer<int>(data[i]) >> 4];
    out += kDigits[std::to_integer<int>(data[i]) & 15];
  }
  return out;
}

// The file and its manifest were written by the gguf package.
TEST(ModelSource, OpensGgufWithEveryType) {
  const auto source = ModelSource::open(loader_fixture("all_types.gguf"));
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->format(), ModelFormat::gguf);
  EXPECT_EQ(read_model_config(**source)->decoder.vocab_size, 5);
  EXPECT_NE((*source)->gguf(), nullptr);
  EXPECT_EQ((*source)->gguf()->array("tokenizer.ggml.tokens")->strings.back(), "日本");
  const boost::json::value manifest = boost::json::parse(read_binary(loader_fixture("all_types.json")));
  EXPECT_EQ(manifest.as_array().size(), (*source)->tensor_names().size());
  for (const boost::json::value& each : manifest.as_array()) {
    const std::string name(each.at("name").as_string());
    const TensorView* tensor = (*source)->find(name);
    ASSERT_NE(tensor, nullptr) << name;
    EXPECT_EQ(dtype_info(tensor->dtype).name, std::string_view(each.at("type").as_string()));
    EXPECT_EQ(tensor->shape, boost::json::value_to<std::vector<std::int64_t>>(each.at("shape")));
    EXPECT_EQ(tensor->bytes(), each.at("bytes").as_int64());
    EXPECT_EQ(hex(tensor->data, 8), std::string_view(each.at("first").as_string()));
    EXPECT_EQ(hex(tensor->data + tensor->bytes() - 8, 8), std::string_view(each.at("last").as_string()));
  }
}

TEST(ModelSource, OpensASplitGgufByItsFirstPart) {
  const ScratchFolder scratch;
  const auto part = [](std::uint16_t number) {
    GgufBuilder builder;
    if (number == 0) {
      builder.string("general.architecture", "llama")
          .u32("llama.context_length", 64)
          .u32("llama.embedding_length", 8)
          .u32("llama.block_count", 1)
          .u32("llama.feed_forward_length", 8)
          .u32("llama.attention.head_count", 2)
          .f32("llama.attention.layer_norm_rms_epsilon", 1e-6f);
    }
    return builder.u32("split.no", number)
        .u32("split.count", 2)
        .u32("split.tensors.count", 2)
        .tensor(number == 0 ? "token_embd.weight" : "output_norm.weight", {8}, 0,
                std::string(32, 'a' + number));
  };
  const std::string first = scratch.write("m-00001-of-00002.gguf", part(0).build());
  expect_source_refused(first, "part 2 of 2");
  expect_source_refused(first, "m-00002-of-00002.gguf");
  scratch.write("m-00002-of-00002.gguf", part(0).build());
  expect_source_refused(first, "is not part 2 of 2");
  scratch.write("m-00002-of-00002.gguf", part(1).build());
  const std::string second = scratch.path() + "/m-00002-of-00002.gguf";
  scratch.write("style-lora.gguf", GgufBuilder().string("general.type", "adapter").build());
  for (const std::string& model : {first, second, scratch.path()}) {
    const auto source = ModelSource::open(model);
    ASSERT_TRUE(source) << source.error().message();
    ASSERT_NE((*source)->find("output_norm.weight"), nullptr);
    EXPECT_EQ(static_cast<char>((*source)->find("output_norm.weight")->data[0]), 'b');
    EXPECT_EQ((*source)->tensor_names().size(), 2u);
    EXPECT_TRUE((*source)->unchanged());
  }
  // The first parts of several models are named.
  scratch.write("n-00001-of-00002.gguf", part(0).build());
  scratch.write("n-00002-of-00002.gguf", part(1).build());
  expect_source_refused(scratch.path(), "name one of: m-00001-of-00002.gguf, n-00001-of-00002.gguf");
  const std::string only_second = scratch.write("other/m-00002-of-00002.gguf", part(1).build());
  for (const std::string& model : {only_second, scratch.path() + "/other"})
    expect_source_refused(
        model, "is part 2 of 2 of a model, which is read from its first part, NAME-00001-of-00002.gguf");
  expect_source_refused(scratch.write("other/x.gguf", part(0).build()), "is part 1 of 2 of a model");
}

TEST(ModelSource, OpensShardsWrittenBySafetensors) {
  for (const std::string& model : {loader_fixture("sharded"), loader_fixture("sharded/"),
                                   loader_fixture("sharded/model-00002-of-00002.safetensors")}) {
    const auto source = ModelSource::open(model);
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_EQ((*source)->name(), "sharded");
    EXPECT_EQ((*source)->weight_type(), "F32 (97 %), F16 (3 %)");
    EXPECT_EQ(read_model_config(**source)->eos_token_ids, (std::vector<std::int32_t>{2, 5}));
    EXPECT_EQ((*source)->tensor_names(),
              (std::vector<std::string>{"model.embed_tokens.weight", "model.norm.weight"}))
        << "the BOOL mask is left out";
    EXPECT_EQ((*source)->find("model.norm.weight")->dtype, DType::f16);
    EXPECT_TRUE((*source)->side_file("generation_config.json").has_value());
    EXPECT_FALSE((*source)->side_file("tokenizer.json").has_value());
    EXPECT_FALSE((*source)->side_file("../sharded/config.json").has_value());
  }
}

TEST(ModelSource, ResolvesFolders) {
  const ScratchFolder scratch;
  scratch.write("one/model.gguf", read_binary(loader_fixture("all_types.gguf")));
  EXPECT_TRUE(ModelSource::open(scratch.path() + "/one"));
  scratch.write("one/other.gguf", "");
  expect_source_refused(scratch.path() + "/one", "several .gguf files; name one of: model.gguf, other.gguf");
  scratch.write("pickle/config.json", "{}");
  scratch.write("pickle/pytorch_model.bin", "");
  expect_source_refused(scratch.path() + "/pickle", "pytorch_model.bin' is not a supported weight format");
  expect_source_refused(scratch.path() + "/pickle/pytorch_model.bin", "supported: .safetensors and .gguf");
  scratch.write("nothing/readme.txt", "");
  expect_source_refused(scratch.path() + "/nothing", "holds no model");
  expect_source_refused(scratch.path() + "/nothing/readme.txt", "is not a model");
  ASSERT_EQ(::mkfifo((scratch.path() + "/pipe.gguf").c_str(), 0600), 0);
  expect_source_refused(scratch.path() + "/pipe.gguf", "not a regular file");
  expect_source_refused("", "no MODEL given");
}

// As Ollama names its files.
TEST(ModelSource, KnowsGgufByItsFirstBytes) {
  const ScratchFolder scratch;
  const auto source =
      ModelSource::open(scratch.write("sha256-1f", read_binary(loader_fixture("all_types.gguf"))));
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->format(), ModelFormat::gguf);
  expect_source_refused(scratch.write("sha256-2e", "GGU"), "is not a model");
  ASSERT_EQ(::mkfifo((scratch.path() + "/pipe").c_str(), 0600), 0);
  expect_source_refused(scratch.path() + "/pipe", "is not a model");
}

TEST(ModelSource, AVisionPartBesideAModelIsNotASecondOne) {
  const ScratchFolder scratch;
  const std::string part = GgufBuilder().string("general.architecture", "clip").build();
  const std::string alone = scratch.write("mmproj-model-f16.gguf", part);
  expect_source_refused(alone, "vision or audio part of a model (mmproj)");
  expect_source_refused(scratch.path(), "holds only the vision part of a model: mmproj-model-f16.gguf");
  scratch.write("gemma-MMPROJ.gguf", part);
  scratch.write("model-Q8.gguf", read_binary(loader_fixture("all_types.gguf")));
  const auto source = ModelSource::open(scratch.path());
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_TRUE((*source)->path().ends_with("model-Q8.gguf"));
}

TEST(ModelSource, WhatAQuantiserMeasuredIsNoModel) {
  const ScratchFolder scratch;
  const std::string matrix = GgufBuilder().string("general.type", "imatrix").build();
  expect_source_refused(scratch.write("Tiny-imatrix.gguf", matrix), "an importance matrix (imatrix)");
  expect_source_refused(scratch.path(), "an importance matrix (imatrix)");
  expect_source_refused(
      scratch.write("other/v.gguf", GgufBuilder().string("general.architecture", "controlvector").build()),
      "a control vector, not the model");
  scratch.write("Tiny-Q8_0.gguf", read_binary(loader_fixture("all_types.gguf")));
  const auto source = ModelSource::open(scratch.path());
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_TRUE((*source)->path().ends_with("Tiny-Q8_0.gguf"));
  // A model that was made with one may say so in its name.
  scratch.write("Tiny-imatrix-Q4_0.gguf", read_binary(loader_fixture("all_types.gguf")));
  expect_source_refused(scratch.path(),
                        "several .gguf files; name one of: Tiny-Q8_0.gguf, Tiny-imatrix-Q4_0.gguf");
}

// In whatever files its weights are.
TEST(ModelSource, NamesAMethodBeforeTheFormatOfItsFiles) {
  const ScratchFolder scratch;
  scratch.write("config.json", R"({"model_type":"llama","quantization_config":{"quant_method":"torchao"}})");
  scratch.write("pytorch_model.bin", "");
  expect_source_refused(scratch.path(), "weights quantised by torchao are not supported; supported: AWQ");
  scratch.write("config.json", R"({"model_type":"llama","quantization_config":{"quant_method":"awq"}})");
  expect_source_refused(scratch.path(), "pytorch_model.bin' is not a supported weight format");
}

TEST(ModelSource, OpensShardsWithoutAnIndex) {
  const ScratchFolder scratch;
  for (const char* file : {"config.json", "model-00001-of-00002.safetensors"})
    scratch.write(file, read_binary(loader_fixture("sharded/") + file));
  expect_source_refused(scratch.path(), "1 .safetensors files of 2: model-00001-of-00002.safetensors");
  const std::string last = read_binary(loader_fixture("sharded/model-00002-of-00002.safetensors"));
  scratch.write("model-00002-of-00002.safetensors", last);
  for (const char* other : {"consolidated.safetensors", "adapter_model.safetensors"})
    scratch.write(other, last);
  const auto source = ModelSource::open(scratch.path());
  ASSERT_TRUE(source) << source.error().message();
  EXPECT_EQ((*source)->tensor_names(),
            (std::vector<std::string>{"model.embed_tokens.weight", "model.norm.weight"}));
  scratch.write("second.safetensors", last);
  expect_source_refused(scratch.path(), "3 .safetensors files of 2");
  std::filesystem::rename(scratch.path() + "/model-00002-of-00002.safetensors",
                          scratch.path() + "/first.safetensors");
  std::filesystem::remove(scratch.path() + "/model-00001-of-00002.safetensors");
  expect_source_refused(scratch.path(), "tensor 'model.norm.weight' is in two files");
}

TEST(ModelSource, FormsThatAreNotReadAreNamed) {
  const ScratchFolder scratch;
  for (const char* file : {"params.json", "consolidated.00.pth"}) scratch.write(file, "{}");
  expect_source_refused(scratch.path(), "consolidated.00.pth' is not a supported weight format");
  scratch.write("consolidated.safetensors", testing::safetensors("{}", ""));
  expect_source_refused(scratch.path(), "params.json: 'dim' must be given");
  expect_source_refused("s3://bucket/model", "'s3://bucket/model' cannot be read: give a folder");
  expect_source_refused("~/model.gguf", "no shell has replaced the '~'");
}

TEST(ModelSource, AdaptersAreNamed) {
  const ScratchFolder scratch;
  scratch.write("adapter_model.safetensors", "");
  scratch.write("adapter_config.json", R"({"base_model_name_or_path":"org/base","peft_type":"LORA"})");
  expect_source_refused(scratch.path(), "is an adapter (PEFT) of org/base, not a model");
  expect_source_refused(scratch.path() + "/adapter_model.safetensors", "is an adapter (PEFT) of org/base");
  scratch.write("adapter_config.json", "[");
  expect_source_refused(scratch.path(), "is an adapter (PEFT), not a model");
}

TEST(ModelSource, ResolvesTheHubCache) {
  const ScratchFolder scratch;
  const HubPaths hub{{scratch.path() + "/absent", scratch.path() + "/hub"}};
  const std::string model = "hub/models--org--tiny/";
  for (const char* file : {"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                           "model-00002-of-00002.safetensors"}) {
    scratch.write(model + "snapshots/abc123/" + file, read_binary(loader_fixture("sharded/") + file));
  }
  scratch.write(model + "refs/main", "abc123\n");
  for (const char* name : {"org/tiny", "org/tiny@main", "org/tiny@abc123"}) {
    const auto source = ModelSource::open(name, hub);
    ASSERT_TRUE(source) << source.error().message();
    EXPECT_EQ((*source)->name(), "org/tiny");
    EXPECT_EQ((*source)->path(), scratch.path() + "/hub/models--org--tiny/snapshots/abc123");
  }
  expect_source_refused("org/tiny@v2", "has no snapshot 'v2'", hub);
  expect_source_refused("org/none",
                        "tried: org/none, " + scratch.path() + "/absent/models--org--none, " +
                            scratch.path() + "/hub/models--org--none",
                        hub);
  // A ref that leads out of the cache is no snapshot.
  scratch.write(model + "refs/evil", "../../../../one");
  expect_source_refused("org/tiny@evil", "has no snapshot 'evil'", hub);
}

TEST(HubName, AcceptsOnlyPlainNames) {
  EXPECT_EQ(parse_hub_name("org/name@refs/pr/1")->revision, "refs/pr/1");
  EXPECT_EQ(parse_hub_name("gpt2")->repository, "gpt2");
  for (const char* bad :
       {"", "/", "a/b/c", "../x", "a/..", "a/b@", "a/b@../c", "a--b/c", ".a/b", "a b/c", "a/b\n"}) {
    EXPECT_FALSE(parse_hub_name(bad)) << bad;
  }
}

TEST(SafetensorsIndex, RefusesShardsElsewhere) {
  EXPECT_EQ(parse_safetensors_index(R"({"weight_map":{"a":"x.safetensors"}})")->at("a"), "x.safetensors");
  EXPECT_EQ(parse_safetensors_index("\xEF\xBB\xBF"
                                    R"({"weight_map":{"a":"x.safetensors",},})")
                ->at("a"),
            "x.safetensors");
  for (const char* elsewhere : {"./x.safetensors", "././x.safetensors", "/models/mine/x.safetensors"})
    EXPECT_EQ(parse_safetensors_index(concat(R"({"weight_map":{"a":")", elsewhere, "\"}}"))->at("a"),
              "x.safetensors");
  for (const char* bad :
       {"", "{}", "[]", R"({"weight_map":{"a":"./../x.safetensors"}})",
        R"({"weight_map":{"a":"b/x.safetensors"}})", R"({"weight_map":[]})", R"({"weight_map":{}})",
        R"({"weight_map":{"a":1}})", R"({"weight_map":{"a":"../x"}})",
        R"({"weight_map":{"a":"/etc/passwd"}})", R"({"weight_map":{"a":".."}})", R"({"weight_map":{"a":""}})",
        R"({"weight_map":{"a":"x\u0000y"}})"}) {
    EXPECT_FALSE(parse_safetensors_index(bad)) << bad;
  }
}

// Files say themselves what they have; names that the index has beyond it do no harm.
TEST(ModelSource, ReadsFilesWhateverTheirIndexNames) {
  const ScratchFolder scratch;
  for (const char* file :
       {"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    scratch.write(file, read_binary(loader_fixture("sharded/") + file));
  }
  scratch.write("model.safetensors.index.json",
                R"({"weight_map":{"nowhere":"model-00001-of-00002.safetensors"}})");
  const auto first = ModelSource::open(scratch.path());
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_FALSE((*first)->tensor_names().empty());
  EXPECT_EQ((*first)->find("nowhere"), nullptr);
  EXPECT_EQ((*first)->absent_file(), "");

  scratch.write("model.safetensors.index.json",
                R"({"weight_map":{"a":"model-00001-of-00002.safetensors","b":"absent.safetensors",)"
                R"("c":"model-00002-of-00002.safetensors"}})");
  const auto both = ModelSource::open(scratch.path());
  ASSERT_TRUE(both) << both.error().message();
  EXPECT_GT((*both)->tensor_names().size(), (*first)->tensor_names().size());
  EXPECT_EQ((*both)->absent_file(), "absent.safetensors");

  scratch.write("model.safetensors.index.json", R"({"weight_map":{"nowhere":"absent.safetensors"}})");
  expect_source_refused(scratch.path(), "No such file");
}

TEST(ModelSource, TheIndexSaysWhichOfTwoTensorsIsMeant) {
  const ScratchFolder scratch;
  for (const char* file :
       {"config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    scratch.write(file, read_binary(loader_fixture("sharded/") + file));
  }
  const std::string again = "model-00003-of-00003.safetensors";
  scratch.write(again, read_binary(loader_fixture("sharded/model-00002-of-00002.safetensors")));
  const auto index = [&](std::string_view more) {
    scratch.write("model.safetensors.index.json",
                  concat(R"({"weight_map":{"a":"model-00001-of-00002.safetensors",)",
                         R"("b":"model-00002-of-00002.safetensors","c":")", again, '"', more, "}}"));
  };
  index("");
  expect_source_refused(scratch.path(), "is in two files of");
  std::string all;
  const auto second = SafetensorsFile::open(scratch.path() + "/" + again);
  ASSERT_TRUE(second);
  for (const FileTensor& tensor : second->tensor_list())
    all += concat(",\"", tensor.name, "\":\"", again, '"');
  index(all);
  const auto source = ModelSource::open(scratch.path());
  EXPECT_TRUE(source) << source.error().message();
}

TEST(ModelSource, OpensTheSharedModels) {
  const std::string models = testing::shared_path("models");
  if (models.empty()) GTEST_SKIP() << "the shared test data is not on this machine";
  for (const char* name :
       {"stories260K/stories260K.gguf", "stories260K/model.safetensors", "tiny_gpt2", "tiny_gpt2_random",
        "tiny_llama", "tiny_mistral", "tiny_opt", "tiny_qwen2", "tiny_qwen3"}) {
    const auto source = ModelSource::open(models + "/" + name);
    EXPECT_TRUE(source) << name << ": " << source.error().message();
  }
}

TEST(MappedFile, RefusesWhatIsNotAFile) {
  EXPECT_EQ(MappedFile::open("/nonexistent/x").error().code(), StatusCode::not_found);
  EXPECT_EQ(MappedFile::open("/").error().code(), StatusCode::invalid_argument);
  EXPECT_FALSE(MappedFile::open("/dev/zero"));
  const ScratchFolder scratch;
  const std::string path = scratch.write("f", "12345");
  EXPECT_EQ((*MappedFile::open(path))->bytes().size(), 5u);
  EXPECT_EQ(*read_text_file(path), "12345");
  EXPECT_EQ(read_text_file(path, 4).error().code(), StatusCode::corrupt_data);
  EXPECT_TRUE((*MappedFile::open(scratch.write("empty", "")))->bytes().empty());
}

TEST(MappedFileDeathTest, TruncationUnderUsExitsWithOneLine) {
  const ScratchFolder scratch;
  const std::string path = scratch.write("f", std::string(8192, 'x'));
  EXPECT_EXIT(
      {
        install_sigbus_handler();
        const auto file = *MappedFile::open(path);
        std::filesystem::resize_file(path, 0);
        volatile std::byte last = file->bytes()[8191];
        (void)last;
      },
      ::testing::ExitedWithCode(2), "^pagoda: a model file was cut short");
}

}  // namespace
}  // namespace pagoda
