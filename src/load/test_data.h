#pragma once
// The folder of published workloads, for tests only.
#include <cstdlib>
#include <filesystem>
#include <string>

namespace pagoda {

// Empty if the data is not available.
inline std::string test_data_folder() {
  const char* const given = std::getenv("PAGODA_SHARED_DATA");
  for (const std::string& path :
       {std::string(given == nullptr ? "" : given), std::string(PAGODA_SOURCE_DIR "/../shared/data"),
        std::string(PAGODA_SOURCE_DIR "/../../shared/data")})
    if (!path.empty() && std::filesystem::is_directory(path)) return path;
  return "";
}

}  // namespace pagoda
