#include "cli/commands/ps_command.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "base/strings.h"
#include "cli/assembly/default_model.h"
#include "cli/exit_code.h"
#include "cli/flags/engine_flag_table.h"
#include "cli/flags/flag_values.h"
#include "cli/flags/parse_command_line.h"
#include "cli/flags/peer_flags.h"
#include "cli/flags/store_flags.h"
#include "cli/mib.h"
#include "loader/printable.h"

namespace pagoda {
namespace {

struct RunningServer {
  pid_t pid = 0;
  std::string model = "?", address = {};
  std::string model_flag = {};  // as typed
  std::int64_t memory_bytes = 0;
};

std::vector<std::string> words_in(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::int64_t resident_bytes(const std::filesystem::path& process) {
  std::ifstream in(process / "statm");
  std::int64_t size = 0, resident = 0;
  in >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// The flags with which a server was started, from its command line, then its environment.
std::optional<EngineFlags> flags_of(const std::filesystem::path& process,
                                    std::vector<std::string> arguments) {
  EngineFlags flags;
  std::vector<std::string> ignored;
  Command serve{.name = "serve", .summary = {}, .flags = engine_flag_table(flags)};
  std::ranges::move(peer_flags(ignored), std::back_inserter(serve.flags));
  const auto line = parse_command_line(serve, std::move(arguments));
  if (!line) return std::nullopt;
  const std::vector<std::string> variables = words_in(process / "environ");
  const auto environment = [&variables](const char* name) {
    const std::string begin = concat(name, "=");
    for (const std::string& variable : variables)
      if (variable.starts_with(begin)) return variable.substr(begin.size());
    return std::string();
  };
  if (!store_flags(*line, environment).ok()) return std::nullopt;
  return flags;
}

// Inodes of the sockets that a process has open.
std::set<std::string> sockets_of(const std::filesystem::path& process) {
  std::set<std::string> inodes;
  std::error_code error;
  for (std::filesystem::directory_iterator each(process / "fd", error), end; !error && each != end;
       each.increment(error)) {
    std::error_code unread;
    const std::string target = std::filesystem::read_symlink(each->path(), unread).string();
    constexpr std::string_view kSocket = "socket:[";
    if (target.starts_with(kSocket))
      inodes.insert(target.substr(kSocket.size(), target.size() - kSocket.size() - 1));
  }
  return inodes;
}

// Returns the TCP port on which a process listens; 0 if it cannot be determined. Rows of /proc/PID/net/tcp
// begin with "sl local_address rem_address st", with hexadecimal addresses, and have the inode in the tenth
// column.
int listening_port(const std::filesystem::path& process) {
  constexpr std::string_view kListening = "0A";
  const std::set<std::string> inodes = sockets_of(process);
  for (const char* table : {"net/tcp", "net/tcp6"}) {
    std::ifstream rows(process / table);
    for (std::string row; std::getline(rows, row);) {
      std::istringstream columns(row);
      std::string column[10];
      for (std::string& each : column) columns >> each;
      const std::size_t colon = column[1].rfind(':');
      if (column[3] != kListening || colon == std::string::npos || !inodes.contains(column[9])) continue;
      int port = 0;
      std::from_chars(column[1].data() + colon + 1, column[1].data() + column[1].size(), port, 16);
      return port;
    }
  }
  return 0;
}

// The served name of the model if the flags do not set one.
std::string served_name(const std::filesystem::path& process, const std::string& model) {
  if (model.empty()) return model_name_of(default_model_path());
  std::error_code error;
  return std::filesystem::exists(process / "cwd" / model, error) ? model_name_of(model) : model;
}

std::vector<RunningServer> running_servers() {
  std::vector<RunningServer> servers;
  std::error_code error;
  for (std::filesystem::directory_iterator each("/proc", error), end; !error && each != end;
       each.increment(error)) {
    const std::string name = each->path().filename().string();
    pid_t pid = 0;
    const auto [stop, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc() || stop != name.data() + name.size() || pid == getpid()) continue;
    struct stat facts = {};
    if (stat(each->path().c_str(), &facts) != 0 || facts.st_uid != geteuid()) continue;
    std::vector<std::string> words = words_in(each->path() / "cmdline");
    if (words.size() < 2 || words[1] != "serve" || std::filesystem::path(words[0]).filename() != "pagoda")
      continue;
    words.erase(words.begin(), words.begin() + 2);
    RunningServer server{.pid = pid, .memory_bytes = resident_bytes(each->path())};
    if (const auto flags = flags_of(each->path(), std::move(words))) {
      const std::vector<std::string>& names = flags->served_model_names;
      server.model = names.empty() ? served_name(each->path(), flags->model) : names.front();
      server.model_flag = flags->model;
      const int port = flags->server.port == 0 ? listening_port(each->path()) : flags->server.port;
      server.address = flags->server.uds.empty() ? concat(flags->server.host, ":", port) : flags->server.uds;
    }
    servers.push_back(std::move(server));
  }
  std::ranges::sort(servers, {}, &RunningServer::pid);
  return servers;
}

bool is_meant(const RunningServer& server, const std::string& name) {
  return name.empty() || std::to_string(server.pid) == name || server.model == name ||
         server.model_flag == name || server.address == name || server.address.ends_with(concat(":", name));
}

}  // namespace

std::vector<Flag> ps_flags(PsArgs& args) {
  return {{.name = "json", .value = flags::on(args.json), .help = "print JSON instead of a table"}};
}

std::vector<Flag> stop_flags(StopArgs& args) {
  return {{.positional = "SERVER",
           .value = flags::text(args.server, "SERVER"),
           .help = "server to stop: PID, port or model, as `pagoda ps` shows them",
           .default_text = "the only one running"}};
}

int run_ps(const PsArgs& args) {
  const std::vector<RunningServer> servers = running_servers();
  if (args.json) {
    boost::json::array rows;
    for (const RunningServer& server : servers)
      rows.push_back({{"pid", server.pid},
                      {"model", server.model},
                      {"address", server.address},
                      {"memory", server.memory_bytes}});
    std::printf("%s\n", boost::json::serialize(rows).c_str());
  } else {
    std::printf("%8s  %-22s  %12s  %s\n", "PID", "ADDRESS", "MEMORY", "MODEL");
    for (const RunningServer& server : servers)
      std::printf("%8d  %-22s  %12s  %s\n", server.pid, printable(server.address).c_str(),
                  mib(server.memory_bytes).c_str(), printable(server.model).c_str());
  }
  return std::fflush(stdout) == 0 ? 0 : fail("cannot write to standard output");
}

int run_stop(const StopArgs& args) {
  std::vector<RunningServer> servers = running_servers();
  std::erase_if(servers, [&](const RunningServer& server) { return !is_meant(server, args.server); });
  if (servers.empty())
    return fail(args.server.empty() ? std::string("no server of this user is running")
                                    : concat("no server with PID, port or model '", printable(args.server),
                                             "' is running; see pagoda ps"));
  if (servers.size() > 1) return fail("several servers match: name one by its PID, as pagoda ps shows it");
  if (kill(servers.front().pid, SIGTERM) != 0) return fail("the server has ended already");
  std::printf("Stopping server %d once its running requests are finished.\n", servers.front().pid);
  return std::fflush(stdout) == 0 ? 0 : fail("cannot write to standard output");
}

}  // namespace pagoda
