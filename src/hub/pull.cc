#include "hub/pull.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/strings.h"
#include "hub/choose_files.h"
#include "hub/digest.h"
#include "hub/hub_client.h"
#include "hub/repository_folder.h"
#include "hub/short_names.h"

namespace pagoda {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 5;  // consecutive attempts without a new byte
constexpr std::chrono::milliseconds kFirstWait{500};

// An open file, closed on destruction.
class File {
 public:
  File(const std::string& path, int flags) : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0644)) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

Status cannot(std::string_view what, const std::string& path) {
  const int error = errno;
  const std::string message = concat("cannot ", what, " ", path, ": ", std::strerror(error));
  return error == ENOSPC || error == EDQUOT ? resource_exhausted(message).with_reason("disk_full")
                                            : internal_error(message);
}

bool may_help_again(const Status& status) {
  return status.code() == StatusCode::unavailable ||
         (status.code() == StatusCode::resource_exhausted && status.reason() != "disk_full");
}

// Calls `attempt` until it succeeds, fails for good, or fails kTries times without progress.
template <class Attempt>
Status persist(HubClient& client, const PullSettings& settings, const Attempt& attempt) {
  auto wait = kFirstWait;
  for (int failures = 0;;) {
    bool progress = false;
    const Status status = attempt(progress);
    if (status.ok() || !may_help_again(status)) return status;
    if (progress) {
      failures = 0;
      wait = kFirstWait;
    }
    if (++failures >= kTries) return status;
    const auto pause =
        std::max<std::chrono::milliseconds>(wait, std::chrono::seconds(client.retry_after_s()));
    settings.note(concat(status.message(), "; retrying in ",
                         fixed(static_cast<double>(pause.count()) / 1000, 1), " s"));
    std::this_thread::sleep_for(pause);
    wait *= 2;
  }
}

Status write_all(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot("write", path);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return ok_status();
}

// Compares the bytes with the ETag; ok if the ETag is not a known kind of hash.
Status check_digest(const std::string& path, const std::string& file, const std::string& etag) {
  const bool hex = etag.find_first_not_of("0123456789abcdef") == etag.npos;
  if (!hex || (etag.size() != 64 && etag.size() != 40)) return ok_status();
  const auto digest = file_digest(path, etag.size() == 64 ? DigestKind::sha256 : DigestKind::git_blob_sha1);
  if (!digest) return digest.error();
  if (*digest == etag) return ok_status();
  return corrupt_data(concat(file, ": the download is corrupt: its hash is ", *digest, ", not ", etag));
}

struct Wanted {
  std::string file;
  HubFile about;
};

class Puller {
 public:
  Puller(HubClient client, const PullName& name, const PullSettings& settings)
      : client_(std::move(client)),
        name_(name),
        settings_(settings),
        folder_(settings.cache, name.name.repository) {}

  Result<Pulled> run() {
    const std::string& repository = name_.name.repository;
    HubRepository listed;
    PAGODA_RETURN_IF_ERROR(persist(client_, settings_, [&](bool&) -> Status {
      auto answer = client_.repository(repository, name_.name.revision);
      if (!answer) return answer.error();
      listed = *std::move(answer);
      return ok_status();
    }));
    const auto files = choose_files(listed.files, name_.tag);
    if (!files) return files.error().annotate(repository);
    std::vector<Wanted> wanted;
    for (const std::string& file : *files) {
      PAGODA_RETURN_IF_ERROR(persist(client_, settings_, [&](bool&) -> Status {
        auto about = client_.describe(repository, listed.commit, file);
        if (!about) return about.error();
        wanted.push_back({file, *std::move(about)});
        return ok_status();
      }));
    }
    PAGODA_RETURN_IF_ERROR(folder_.make());
    PAGODA_RETURN_IF_ERROR(check_space(wanted));
    for (const Wanted& one : wanted) PAGODA_RETURN_IF_ERROR(get_blob(listed.commit, one));
    // Another model of this commit may exist, so that its snapshot is already found: link files only when all
    // are complete.
    for (const Wanted& one : wanted)
      PAGODA_RETURN_IF_ERROR(folder_.link(listed.commit, one.file, one.about.etag));
    PAGODA_RETURN_IF_ERROR(folder_.write_ref(name_.name.revision, listed.commit));
    return Pulled{.snapshot = folder_.snapshot(listed.commit), .files = *files};
  }

 private:
  Status check_space(const std::vector<Wanted>& wanted) {
    std::uintmax_t missing = 0;
    for (const Wanted& one : wanted) {
      std::error_code error;
      if (fs::exists(folder_.blob(one.about.etag), error)) continue;
      const auto here = fs::file_size(folder_.incomplete(one.about.etag), error);
      const auto size = static_cast<std::uintmax_t>(one.about.size);
      missing += error || here > size ? size : size - here;
    }
    std::error_code error;
    const fs::space_info space = fs::space(settings_.cache, error);
    if (error || space.available >= missing) return ok_status();
    return resource_exhausted(concat("the disk of ", settings_.cache, " is too full: ", missing >> 20,
                                     " MiB are still to be downloaded, ", space.available >> 20,
                                     " MiB are free"));
  }

  Status get_blob(const std::string& commit, const Wanted& one) {
    const std::string blob = folder_.blob(one.about.etag), incomplete = folder_.incomplete(one.about.etag);
    std::error_code error;
    const File lock(folder_.lock(one.about.etag), O_RDWR | O_CREAT);
    if (lock.descriptor() < 0) return cannot("open", folder_.lock(one.about.etag));
    if (::flock(lock.descriptor(), LOCK_EX | LOCK_NB) != 0)
      return already_exists(concat(one.file, " is being downloaded by another program"));
    if (fs::exists(blob, error)) {
      settings_.note(concat(one.file, " is there already"));
      return ok_status();
    }
    Status status = fetch_and_check(commit, one, incomplete);
    if (status.code() == StatusCode::corrupt_data) {
      // The first bytes may come from another program, or from before a machine crash: fetch once more from
      // the start.
      settings_.note(concat(status.message(), "; again from its beginning"));
      fs::remove(incomplete, error);
      status = fetch_and_check(commit, one, incomplete);
      if (status.code() == StatusCode::corrupt_data) fs::remove(incomplete, error);
    }
    PAGODA_RETURN_IF_ERROR(status);
    if (::rename(incomplete.c_str(), blob.c_str()) != 0) return cannot("rename", incomplete);
    return ok_status();
  }

  Status fetch_and_check(const std::string& commit, const Wanted& one, const std::string& path) {
    const File file(path, O_RDWR | O_CREAT);
    if (file.descriptor() < 0) return cannot("open", path);
    std::int64_t here = ::lseek(file.descriptor(), 0, SEEK_END);
    if (here < 0) return cannot("read", path);
    const auto start_at = [&](std::int64_t at) -> Status {
      if (::ftruncate(file.descriptor(), at) != 0 || ::lseek(file.descriptor(), at, SEEK_SET) < 0)
        return cannot("write", path);
      here = at;
      return ok_status();
    };
    if (here > one.about.size) PAGODA_RETURN_IF_ERROR(start_at(0));
    std::int64_t best = here;  // a hub without ranges that always fails at the same offset makes no progress
    PAGODA_RETURN_IF_ERROR(persist(client_, settings_, [&](bool& progress) -> Status {
      if (here == one.about.size) return ok_status();
      const auto piece = [&](std::string_view bytes) -> Status {
        if (static_cast<std::int64_t>(bytes.size()) > one.about.size - here)
          return corrupt_data(
              concat(one.file, ": the hub sends more than the ", one.about.size, " bytes it announced"));
        PAGODA_RETURN_IF_ERROR(write_all(file.descriptor(), bytes, path));
        here += static_cast<std::int64_t>(bytes.size());
        progress = progress || here > best;
        best = std::max(best, here);
        settings_.progress(one.file, here, one.about.size);
        return ok_status();
      };
      PAGODA_RETURN_IF_ERROR(client_.fetch(name_.name.repository, commit, one.file, here, start_at, piece));
      if (here == one.about.size) return ok_status();
      return unavailable(
          concat(one.file, ": the answer ends after ", here, " of ", one.about.size, " bytes"));
    }));
    if (::fsync(file.descriptor()) != 0) return cannot("write", path);
    return check_digest(path, one.file, one.about.etag);
  }

  HubClient client_;
  const PullName& name_;
  const PullSettings& settings_;
  RepositoryFolder folder_;
};

}  // namespace

std::optional<PullName> parse_pull_name(std::string_view typed) {
  PullName out;
  const std::string name_in_full = full_name(typed);
  std::string_view text = name_in_full;
  if (const std::size_t colon = text.find(':'); colon != text.npos) {
    out.tag = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (!safe_file_name(out.tag)) return std::nullopt;
  }
  auto name = parse_hub_name(text);
  if (!name || name->repository.find('/') == std::string::npos) return std::nullopt;
  out.name = *std::move(name);
  return out;
}

Result<Pulled> pull(const PullName& name, const PullSettings& settings) {
  auto client = HubClient::create(settings.endpoint, settings.token);
  if (!client) return client.error();
  return Puller(*std::move(client), name, settings).run();
}

}  // namespace pagoda
