#pragma once
// Files for the loader's tests: committed fixtures, the shared data if present, scratch folders.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pagoda::testing {

inline std::string loader_fixture(std::string_view name) {
  return std::string(PAGODA_SOURCE_DIR "/tests/fixtures/models/") + std::string(name);
}

inline const std::string kQuantizedFolders = PAGODA_SOURCE_DIR "/tests/fixtures/quantized/";

// Returns "" if the shared data is not on this machine; tests then skip.
inline std::string shared_path(std::string_view name) {
  std::error_code error;
  const char* from_environment = std::getenv("PAGODA_SHARED_DATA");
  for (const std::string& root : {std::string(from_environment == nullptr ? "" : from_environment),
                                  std::string(PAGODA_SOURCE_DIR "/../shared/data"),
                                  std::string(PAGODA_SOURCE_DIR "/../../shared/data")}) {
    const std::string path = root + "/" + std::string(name);
    if (!root.empty() && std::filesystem::exists(path, error)) return path;
  }
  return "";
}

// Returns the names of folders in `root` that have this file, sorted.
inline std::vector<std::string> folders_with(const std::string& root, std::string_view file) {
  std::vector<std::string> names;
  for (const auto& folder : std::filesystem::directory_iterator(root))
    if (std::filesystem::exists(folder.path() / file)) names.push_back(folder.path().filename().string());
  std::ranges::sort(names);
  return names;
}

// A new folder, removed with its content at the end of the scope.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "pagoda_loader_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) ADD_FAILURE() << "no scratch folder";
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string write(std::string_view name, std::string_view content) const {
    const std::filesystem::path file = std::filesystem::path(path_) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
    return file.string();
  }

 private:
  std::string path_;
};

inline std::string read_binary(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Returns a .safetensors file with `header` and `data`.
inline std::string safetensors(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &length, 8);
  out += header;
  out += data;
  return out;
}

}  // namespace pagoda::testing
