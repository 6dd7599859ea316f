#include "kv_store/memory_files.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kSector = 512;

void apply(std::vector<std::byte>& to, std::uint64_t offset, std::span<const std::byte> bytes) {
  if (to.size() < offset + bytes.size()) to.resize(offset + bytes.size());
  std::ranges::copy(bytes, to.begin() + static_cast<std::ptrdiff_t>(offset));
}

}  // namespace

class MemoryFiles::File final : public StoredFile {
 public:
  File(const MemoryFiles& files, std::shared_ptr<Node> node) : files_(files), node_(std::move(node)) {}

  Result<std::size_t> read(std::uint64_t offset, std::span<std::byte> out) const override {
    if (files_.fails && files_.fails(false)) return internal_error("the disk cannot be read");
    const std::vector<std::byte>& bytes = node_->now;
    if (offset >= bytes.size()) return std::size_t{0};
    auto count = std::min(out.size(), bytes.size() - static_cast<std::size_t>(offset));
    if (files_.short_reads) count = count * 2 / 3;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(offset), count, out.begin());
    return count;
  }
  Status write(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return files_.change(*node_, {.offset = offset, .bytes = {bytes.begin(), bytes.end()}});
  }
  Status zero(std::uint64_t offset, std::uint64_t bytes) override {
    return files_.change(*node_, {.offset = offset, .bytes = std::vector<std::byte>(bytes)});
  }
  Status truncate(std::uint64_t bytes) override {
    return files_.change(*node_, {.offset = bytes, .bytes = {}, .truncates = true});
  }
  Status sync() override {
    PAGODA_RETURN_IF_ERROR(files_.before_change());
    node_->synced = node_->now;
    node_->pending.clear();
    return ok_status();
  }

 private:
  const MemoryFiles& files_;
  std::shared_ptr<Node> node_;
};

Status MemoryFiles::before_change() const {
  if (on_change) on_change();
  if (fails && fails(true)) return internal_error("the disk cannot be written");
  return ok_status();
}

Status MemoryFiles::change(Node& node, Change change) const {
  PAGODA_RETURN_IF_ERROR(before_change());
  if (change.truncates) {
    node.now.resize(change.offset);
  } else {
    const std::uint64_t end = change.offset + change.bytes.size();
    const auto grows = end > node.now.size() ? static_cast<std::int64_t>(end - node.now.size()) : 0;
    // A full disk accepts the beginning of the data.
    if (const std::int64_t room = max_bytes - total_bytes(); grows > room) {
      change.bytes.resize(change.bytes.size() -
                          static_cast<std::size_t>(grows - std::max<std::int64_t>(room, 0)));
      apply(node.now, change.offset, change.bytes);
      node.pending.push_back(std::move(change));
      return resource_exhausted("the disk is full");
    }
    apply(node.now, change.offset, change.bytes);
  }
  node.pending.push_back(std::move(change));
  return ok_status();
}

Result<std::vector<StoredFileInfo>> MemoryFiles::list() const {
  std::vector<StoredFileInfo> out;
  for (const auto& [name, node] : now_)
    out.push_back({.name = name, .bytes = static_cast<std::int64_t>(node->now.size())});
  return out;
}

Result<std::unique_ptr<StoredFile>> MemoryFiles::open(const std::string& name, Access) const {
  if (fails && fails(false)) return internal_error("the disk cannot be read");
  const auto found = now_.find(name);
  if (found == now_.end()) return not_found(concat("no file ", name));
  return std::unique_ptr<StoredFile>(std::make_unique<File>(*this, found->second));
}

Result<std::unique_ptr<StoredFile>> MemoryFiles::create(const std::string& name) {
  PAGODA_RETURN_IF_ERROR(before_change());
  const auto [at, made] = now_.emplace(name, std::make_shared<Node>());
  if (!made) return already_exists(name);
  return std::unique_ptr<StoredFile>(std::make_unique<File>(*this, at->second));
}

Status MemoryFiles::remove(const std::string& name) {
  PAGODA_RETURN_IF_ERROR(before_change());
  return now_.erase(name) == 1 ? ok_status() : not_found(name);
}

Status MemoryFiles::sync_folder() {
  PAGODA_RETURN_IF_ERROR(before_change());
  synced_ = now_;
  return ok_status();
}

// Returns a file's bytes with some of the unsynced changes applied, sector by sector.
std::vector<std::byte> MemoryFiles::torn(const Node& node, std::mt19937_64& random) {
  std::vector<Change> order = node.pending;
  if (random() % 2 == 0) std::ranges::shuffle(order, random);
  const auto share = random() % 5;  // quarters of the sectors that reach the disk
  std::vector<std::byte> out = node.synced;
  for (const Change& change : order) {
    if (change.truncates) {
      if (random() % 4 < share) out.resize(change.offset);
      continue;
    }
    for (std::size_t at = 0; at < change.bytes.size(); at += kSector) {
      if (random() % 4 >= share) continue;
      std::size_t count = std::min(kSector, change.bytes.size() - at);
      if (random() % 32 == 0) count = random() % (count + 1);  // torn
      apply(out, change.offset + at, std::span(change.bytes).subspan(at, count));
    }
    // The new length reached the disk without its bytes, which keep older contents.
    const std::size_t end = change.offset + change.bytes.size();
    if (out.size() < end && random() % 4 == 0) {
      out.resize(out.size() + random() % (end - out.size() + 1), std::byte{0xA5});
    }
  }
  return out;
}

std::unique_ptr<MemoryFiles> MemoryFiles::crash_image(std::mt19937_64& random) const {
  auto image = std::make_unique<MemoryFiles>();
  const auto keep = [&](const std::string& name, const Node& node) {
    auto copy = std::make_shared<Node>();
    copy->now = copy->synced = torn(node, random);
    image->now_.insert_or_assign(name, std::move(copy));
  };
  for (const auto& [name, node] : synced_) {
    const auto now = now_.find(name);
    const bool certain = now != now_.end() && now->second == node;
    if (certain || random() % 2 == 0) keep(name, *node);
  }
  for (const auto& [name, node] : now_) {
    const auto before = synced_.find(name);
    const bool certain = before != synced_.end() && before->second == node;
    if (!certain && random() % 2 == 0) keep(name, *node);
  }
  image->synced_ = image->now_;
  return image;
}

std::vector<std::byte>& MemoryFiles::bytes_of(const std::string& name) {
  const auto found = now_.find(name);
  CHECK(found != now_.end());
  return found->second->now;
}

void MemoryFiles::put(const std::string& name, std::vector<std::byte> bytes) {
  auto node = std::make_shared<Node>();
  node->now = node->synced = std::move(bytes);
  now_.insert_or_assign(name, node);
  synced_.insert_or_assign(name, std::move(node));
}

std::int64_t MemoryFiles::total_bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, node] : now_) sum += static_cast<std::int64_t>(node->now.size());
  return sum;
}

}  // namespace pagoda
