// Goal: the digest follows from the weights' bytes alone, wherever they lie and however many threads hash
// them; it is kept for files that do not change.
#include "cli/assembly/weights_digest.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kv_store/fingerprint.h"
#include "loader/test_files.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

const fs::path kDigestModel = PAGODA_SOURCE_DIR "/tests/fixtures/tiny_models/llama";

class WeightsDigest : public ::testing::Test {
 protected:
  WeightsDigest() {
    fs::copy(kDigestModel, model());
    for (const auto& file : fs::directory_iterator(model())) fs::permissions(file, fs::perms::owner_all);
  }
  fs::path model() const { return fs::path(scratch_.path()) / "model"; }
  std::string folder() const { return scratch_.path() + "/digests"; }
  std::unique_ptr<ModelSource> open(const fs::path& path) { return *ModelSource::open(path.string()); }
  std::string digest(const fs::path& path, int threads = 2) {
    ThreadPool pool(threads);
    return hex(*cached_weights_digest(*open(path), folder(), pool));
  }
  void change_a_byte() const {
    std::fstream file(model() / "model-00002-of-00002.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    const int last = file.peek();
    file.put(static_cast<char>(last ^ 1));
  }

  const testing::ScratchFolder scratch_;
};

TEST_F(WeightsDigest, IsThatOfTheBytes) {
  const std::string here = digest(kDigestModel);
  EXPECT_EQ(digest(model()), here) << "a copy";
  fs::remove_all(folder());
  EXPECT_EQ(digest(model(), 1), here);
  change_a_byte();
  EXPECT_NE(digest(model()), here);
}

TEST_F(WeightsDigest, IsKeptUntilTheFilesChange) {
  const std::string right = digest(model());
  ASSERT_EQ(std::distance(fs::directory_iterator(folder()), {}), 1);
  const fs::path kept = fs::directory_iterator(folder())->path();
  std::string text = std::string(64, 'a');
  std::fstream file(kept, std::ios::in | std::ios::out);
  file.seekp(-64, std::ios::end);
  file << text;
  file.close();
  EXPECT_EQ(digest(model()), text) << "is not computed again";
  std::ofstream(kept, std::ios::trunc) << "cut short";
  EXPECT_EQ(digest(model()), right);
  change_a_byte();
  EXPECT_NE(digest(model()), right);
}

TEST_F(WeightsDigest, NeedsNoFolder) {
  const std::string right = digest(model());
  fs::remove_all(folder());
  std::ofstream(folder()) << "a file";
  EXPECT_EQ(digest(model()), right);
}

TEST_F(WeightsDigest, ASampleTellsModelsApartWhereverTheyLie) {
  const auto sample = [&](const fs::path& path) { return hex(*weights_sample(*open(path))); };
  const std::string here = sample(kDigestModel);
  EXPECT_EQ(sample(model()), here) << "a copy";
  change_a_byte();  // The vector is sampled whole.
  EXPECT_NE(sample(model()), here);
  EXPECT_NE(sample(kDigestModel.parent_path() / "qwen2"), here);
}

}  // namespace
}  // namespace pagoda
