#include "api/answer_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "api/answer_store.h"
#include "base/log.h"
#include "base/strings.h"
#include "base/xxh64.h"

namespace pagoda {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr std::string_view kMagic = "pagoda answer 1\n";
constexpr std::string_view kEnding = ".answer", kUnfinished = ".part";
constexpr std::size_t kMaxHeadBytes = 8192;
constexpr std::size_t kMaxFileBytes = std::size_t{1} << 30;

std::uint64_t checksum(std::string_view id, std::string_view owner, std::string_view parts) {
  return xxh64(parts, xxh64(owner, xxh64(id)));
}

std::optional<std::string> contents(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error || size > kMaxFileBytes) return std::nullopt;
  std::ifstream file(path, std::ios::binary);
  std::string bytes(size, '\0');
  if (!file.read(bytes.data(), static_cast<std::streamsize>(size))) return std::nullopt;
  return bytes;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace

std::optional<ParsedAnswerFile> parse_answer_file(std::string_view bytes) {
  if (!bytes.starts_with(kMagic)) return std::nullopt;
  bytes.remove_prefix(kMagic.size());
  const std::size_t line = bytes.substr(0, kMaxHeadBytes).find('\n');
  if (line == std::string_view::npos) return std::nullopt;
  boost::system::error_code error;
  const json::value header = json::parse(bytes.substr(0, line), error);
  if (error || !header.is_object()) return std::nullopt;
  const json::object& fields = header.get_object();
  const auto text = [&](std::string_view name) {
    const json::value* value = fields.if_contains(name);
    return value != nullptr && value->is_string() ? std::optional(std::string(value->get_string()))
                                                  : std::nullopt;
  };
  const auto number = [&](std::string_view name) -> std::optional<std::uint64_t> {
    const json::value* value = fields.if_contains(name);
    if (value == nullptr || !(value->is_int64() || value->is_uint64())) return std::nullopt;
    if (value->is_int64() && value->get_int64() < 0) return std::nullopt;
    return value->to_number<std::uint64_t>();
  };
  std::optional<std::string> id = text("id"), owner = text("owner");
  const auto answer = number("answer"), conversation = number("conversation"), sum = number("xxh64");
  const std::string_view parts = bytes.substr(line + 1);
  if (!id || !owner || !answer || !conversation || !sum || *answer > parts.size() ||
      *conversation != parts.size() - *answer || checksum(*id, *owner, parts) != *sum)
    return std::nullopt;
  return ParsedAnswerFile{.id = *std::move(id),
                          .owner = *std::move(owner),
                          .answer = std::string(parts.substr(0, *answer)),
                          .conversation = std::string(parts.substr(*answer))};
}

Result<std::shared_ptr<const AnswerFiles>> AnswerFiles::open(const std::string& folder) {
  const auto refused = [&](std::string_view problem) {
    return invalid_argument(concat("--response-store-dir: ", folder, ": ", problem));
  };
  std::error_code error;
  const bool made = fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error)) return refused("is not a folder and cannot be created");
  if (made) fs::permissions(folder, fs::perms::owner_all, error);
  const int lock =
      ::open((fs::path(folder) / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (lock < 0) return refused(std::strerror(errno));
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return refused("the folder is in use by another server");
  }
  return std::shared_ptr<const AnswerFiles>(new AnswerFiles(folder, lock));
}

AnswerFiles::~AnswerFiles() { ::close(lock_); }

// Files are named by a hash because parts of an id come from clients.
std::string AnswerFiles::path_of(std::string_view id) const {
  char name[33];
  std::snprintf(name, sizeof name, "%016llx%016llx", static_cast<unsigned long long>(xxh64(id, 1)),
                static_cast<unsigned long long>(xxh64(id, 2)));
  return concat(folder_, "/", name, kEnding);
}

std::vector<AnswerFiles::Found> AnswerFiles::list() const {
  std::vector<std::pair<fs::file_time_type, Found>> all;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const fs::path& path = at->path();
    std::error_code problem;
    if (!fs::is_regular_file(fs::symlink_status(path, problem))) continue;
    if (path.extension() == kUnfinished) fs::remove(path, problem);
    if (path.extension() != kEnding) continue;
    const std::optional<std::string> bytes = contents(path);
    std::optional<ParsedAnswerFile> parsed = bytes ? parse_answer_file(*bytes) : std::nullopt;
    if (!parsed || path_of(parsed->id) != concat(folder_, "/", path.filename().string())) {
      log_warning("api", concat("removed a damaged stored answer: ", path.filename().string()));
      fs::remove(path, problem);
      continue;
    }
    const StoredAnswer answer{.owner = parsed->owner,
                              .answer = std::move(parsed->answer),
                              .conversation = std::move(parsed->conversation)};
    all.emplace_back(fs::last_write_time(path, problem), Found{parsed->id, parsed->owner, answer.bytes()});
  }
  std::ranges::sort(all, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second.id < b.second.id;
  });
  std::vector<Found> found;
  for (auto& [time, one] : all) found.push_back(std::move(one));
  return found;
}

bool AnswerFiles::write(const std::string& id, const StoredAnswer& answer) const {
  const std::string parts = answer.answer + answer.conversation;
  const json::object header{{"id", id},
                            {"owner", answer.owner},
                            {"answer", answer.answer.size()},
                            {"conversation", answer.conversation.size()},
                            {"xxh64", checksum(id, answer.owner, parts)}};
  const std::string head = concat(kMagic, json::serialize(header), "\n");
  if (head.size() > kMaxHeadBytes || head.size() + parts.size() > kMaxFileBytes) return false;
  const std::string path = path_of(id), part = concat(path, kUnfinished);
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (file < 0) return false;
  const bool written = write_all(file, head) && write_all(file, parts);
  const bool closed = ::close(file) == 0;
  if (written && closed && ::rename(part.c_str(), path.c_str()) == 0) return true;
  ::unlink(part.c_str());
  return false;
}

std::optional<StoredAnswer> AnswerFiles::read(const std::string& id) const {
  const std::optional<std::string> bytes = contents(path_of(id));
  std::optional<ParsedAnswerFile> parsed = bytes ? parse_answer_file(*bytes) : std::nullopt;
  if (!parsed || parsed->id != id) return std::nullopt;
  return StoredAnswer{.owner = std::move(parsed->owner),
                      .answer = std::move(parsed->answer),
                      .conversation = std::move(parsed->conversation)};
}

void AnswerFiles::remove(const std::string& id) const { ::unlink(path_of(id).c_str()); }

void AnswerFiles::note_use(const std::string& id) const {
  std::error_code error;
  fs::last_write_time(path_of(id), fs::file_time_type::clock::now(), error);
}

}  // namespace pagoda
