#pragma once
// The programs that `pagoda launch` starts: how each is told which server and model to use. A row a program;
// what it is told are environment variables, arguments, and files in a folder that is this program's own.
// Nothing here touches the disk or starts anything. Threads: any.
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
  std::int64_t max_model_len = 0;  // 0: not known
  std::string key = {};            // empty: the server wants none
  std::string folder = {};         // files that are written for the program

  std::string api() const { return url + "/v1"; }
  // Programs that insist on a key get a word for one.
  std::string some_key() const { return key.empty() ? "none" : key; }
};

struct Launch {
  std::vector<std::pair<std::string, std::string>> variables = {};
  std::vector<std::string> arguments = {};       // before the user's own, which may say otherwise
  std::vector<std::string> last_arguments = {};  // behind them
  // Path below LaunchTarget::folder, text.
  std::vector<std::pair<std::string, std::string>> files = {};
};

struct LaunchedProgram {
  std::string_view name, executable;
  std::string_view install;  // how people get it
  Launch (*tell)(const LaunchTarget& target);
};

std::span<const LaunchedProgram> launched_programs();
const LaunchedProgram* find_launched_program(std::string_view name);  // null: there is none

}  // namespace pagoda
