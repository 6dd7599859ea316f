#include "cli/commands/key_command.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/assign_or_return.h"
#include "base/strings.h"
#include "cli/exit_code.h"
#include "cli/flags/flag_values.h"
#include "loader/mapped_file.h"
#include "server/keys/key_file.h"

namespace pagoda {
namespace {

// 256 random bits from the system, encoded in letters, digits, '-' and '_'.
std::string random_key() {
  unsigned char bytes[32];
  CHECK(RAND_bytes(bytes, sizeof bytes) == 1);
  constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::string key = "sk-pagoda-";
  unsigned bits = 0, held = 0;
  for (const unsigned char byte : bytes) {
    bits = bits << 8 | byte;
    for (held += 8; held >= 6; held -= 6) key.push_back(kAlphabet[bits >> (held - 6) & 63]);
  }
  key.push_back(kAlphabet[bits << (6 - held) & 63]);
  return key;
}

// Replaces the file atomically, because a server may be reading it. A new file is readable by its owner only.
Status replace_file(const std::string& path, const std::string& text) {
  struct stat old{};
  const mode_t mode = ::stat(path.c_str(), &old) == 0 ? old.st_mode & 0777 : 0600;
  const std::string part = concat(path, ".", getpid(), ".part");
  const auto fail = [&](const char* what) {
    const std::string reason = std::strerror(errno);
    ::unlink(part.c_str());
    return invalid_argument(concat(path, ": ", what, ": ", reason));
  };
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return fail("cannot be written");
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
                       ::fchmod(fd, mode) == 0 && ::fsync(fd) == 0;
  if (::close(fd) != 0 || !written) return fail("cannot be written");
  if (::rename(part.c_str(), path.c_str()) != 0) return fail("cannot be replaced");
  return ok_status();
}

Status make_key(const KeyNewArgs& args) {
  if (!is_key_name(args.name))
    return invalid_argument(concat("'", args.name,
                                   "' is not a valid name: it takes 1 to 64 letters, digits, '.', '_' and "
                                   "'-', and must not be reserved"));
  const std::string key = random_key();
  KeyEntry entry;
  entry.name = args.name;
  entry.digests = {digest_of_key(key)};
  for (const Role role : {Role::user, Role::metrics, Role::admin})
    if (args.role == name_of(role)) entry.role = role;
  std::string before;
  if (!args.file.empty() && ::access(args.file.c_str(), F_OK) == 0) {
    PAGODA_ASSIGN_OR_RETURN(std::string text, read_text_file(args.file));
    before = std::move(text);
  }
  PAGODA_ASSIGN_OR_RETURN(const std::string after, with_new_key(before, args.file, entry));
  if (args.file.empty())
    std::fprintf(stderr, "For the file of --api-key-file:\n%s", after.c_str());
  else
    PAGODA_RETURN_IF_ERROR(replace_file(args.file, after));
  std::fprintf(stderr, "The key of %s, shown this once:\n", args.name.c_str());
  std::printf("%s\n", key.c_str());
  return std::fflush(stdout) == 0 ? ok_status() : invalid_argument("cannot write to standard output");
}

}  // namespace

std::vector<Flag> key_new_flags(KeyNewArgs& args) {
  return {
      {.positional = "NAME",
       .value = flags::text(args.name, "NAME"),
       .help = "name of the key in logs, metrics and /admin/usage",
       .required = true},
      {.name = "api-key-file",
       .value = flags::text(args.file, "FILE"),
       .help = "YAML file to add the key's hash to, created if missing; without it the entry is printed",
       .aliases = {"--file", "-f"},
       .environment = true},
      {.name = "role",
       .value = flags::choice(args.role, {"user", "metrics", "admin"}),
       .help = "role of the key"},
  };
}

int run_key_new(const KeyNewArgs& args) { return exit_code(make_key(args)); }

}  // namespace pagoda
