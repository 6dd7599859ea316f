#pragma once
// The programs that `pagoda launch` starts, one row each, and how each is configured for a server and model:
// by environment variables, arguments, and files in a folder of Pagoda's own. Does not write files or start
// processes. Threads: any.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pagoda {

struct LaunchTarget {
  std::string url = {};  // the server, without /v1
  std::string model = {};
  std::int64_t max_model_len = 0;  // 0: unknown
  std::string key = {};            // empty: the server requires no key
  std::string folder = {};         // for the files written for the program

  std::string api() const { return url + "/v1"; }
  // A placeholder if there is no key, for programs that require one.
  std::string some_key() const { return key.empty() ? "none" : key; }
};

struct Launch {
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::vector<std::string> arguments = {};       // before the user's arguments, which can override them
  std::vector<std::string> last_arguments = {};  // after the user's arguments
  // Path below LaunchTarget::folder, and contents.
  std::vector<std::pair<std::string, std::string>> files = {};
};

struct LaunchedProgram {
  std::string_view name, executable;
  std::string_view install;  // how to install the program
  Launch (*tell)(const LaunchTarget& target);
};

std::span<const LaunchedProgram> launched_programs();
const LaunchedProgram* find_launched_program(std::string_view name);  // null if unknown

}  // namespace pagoda
