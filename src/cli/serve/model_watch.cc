#include "cli/serve/model_watch.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/log.h"
#include "base/strings.h"
#include "cli/assembly/hub_paths.h"
#include "loader/model_files.h"

namespace pagoda {

ModelWatch::ModelWatch(std::vector<std::string> paths) {
  for (std::string& path : paths) {
    const Stamp stamp = stamp_of(path);
    files_.push_back({.path = std::move(path), .loaded = stamp, .seen = stamp});
  }
}

ModelWatch::~ModelWatch() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  ended_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::vector<std::string> ModelWatch::files_of(const std::string& model) {
  Result<ModelFiles> files = find_model_files(model, hub_paths_from_environment());
  if (!files) return {};
  if (!files->weights.empty()) return std::move(files->weights);
  std::int64_t count = 0;  // NAME-00001-of-00003.gguf
  if (const std::size_t of = files->path.rfind("-of-"); of != std::string::npos)
    std::from_chars(files->path.data() + of + 4, files->path.data() + files->path.size(), count);
  constexpr std::int64_t kMaxParts = 1000;
  std::vector<std::string> parts;
  if (count > 1 && count <= kMaxParts) parts = gguf_part_paths(files->path, count);
  if (parts.empty()) parts.push_back(files->path);
  return parts;
}

ModelWatch::Stamp ModelWatch::stamp_of(const std::string& path) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return {};
  constexpr std::int64_t kNs = 1'000'000'000;
  return {.bytes = info.st_size,
          .modified = info.st_mtim.tv_sec * kNs + info.st_mtim.tv_nsec,
          .inode = info.st_ino};
}

std::string ModelWatch::check() {
  for (File& file : files_) {
    const Stamp now = stamp_of(file.path);
    const bool news = now != file.seen && now != file.loaded;
    file.seen = now;
    if (news) return file.path;
  }
  return {};
}

void ModelWatch::start(MetricsRegistry& metrics, std::chrono::milliseconds every) {
  Gauge& unchanged = metrics.gauge("pagoda:model_files_unchanged",
                                   "1 while the model's files are those that were loaded, else 0.");
  unchanged.set(1);
  thread_ = std::thread([this, &unchanged, every] {
    std::unique_lock lock(mutex_);
    while (!ended_changed_.wait_for(lock, every, [this] { return ended_; })) {
      if (const std::string path = check(); !path.empty()) {
        const bool gone = stamp_of(path).bytes < 0;
        log_warning("model", concat(path, gone ? " was deleted" : " was changed",
                                    " after it was loaded; the loaded model stays in use "
                                    "until the server is restarted"));
      }
      const auto same = [](const File& file) { return file.seen == file.loaded; };
      unchanged.set(std::ranges::all_of(files_, same) ? 1 : 0);
    }
  });
}

}  // namespace pagoda
