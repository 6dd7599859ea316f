#include "cli/output_file.h"

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "cli/exit_code.h"

namespace pagoda {

Status check_output(const std::string& path) {
  if (path.empty() || path == "-") return ok_status();
  std::error_code error;
  const bool exists = std::filesystem::exists(path, error);
  // Opening a pipe would wait for its reader.
  if (exists && !std::filesystem::is_regular_file(path, error) && !std::filesystem::is_directory(path, error))
    return ok_status();
  std::ofstream file(path, std::ios::app);
  if (!file) return invalid_argument(file_failure("write", path));
  file.close();
  if (!exists) std::filesystem::remove(path, error);
  return ok_status();
}

Status write_output(const std::string& path, std::string_view text) {
  if (path.empty()) return ok_status();
  if (path == "-") {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return ok_status();
  }
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file ? ok_status() : invalid_argument(file_failure("write", path));
}

}  // namespace pagoda
