#include "cli/assembly/weights_digest.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/private_folder.h"
#include "base/strings.h"
#include "kv_store/fingerprint.h"
#include "loader/mapped_file.h"
#include "tensor/dtype.h"

namespace pagoda {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 20;  // unit of work of a thread
constexpr std::string_view kHead = "pagoda weights digest 1\n";

KvDigest digest_of(std::string_view name, std::span<const std::byte> bytes) {
  Fingerprint fingerprint;
  fingerprint.add(name, bytes);
  return fingerprint.finish();
}

KvDigest digest_of_text(std::string_view text) {
  return digest_of("identity", std::as_bytes(std::span(text.data(), text.size())));
}

std::string description_of(std::string_view name, const TensorView& tensor) {
  std::string described = concat(name, "\n", dtype_info(tensor.dtype).name);
  for (const std::int64_t size : tensor.shape) described += concat(" ", size);
  return described;
}

// Writes the file atomically, because other processes may write the same one.
void keep(const std::string& path, const std::string& text) {
  const std::string part = concat(path, ".", ::getpid(), ".part");
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(file);
  if (!written || ::rename(part.c_str(), path.c_str()) != 0) ::unlink(part.c_str());
}

}  // namespace

Result<KvDigest> weights_digest(const ModelSource& source, ThreadPool& pool) {
  Fingerprint all;
  std::vector<KvDigest> chunks;
  for (const std::string& name : source.tensor_names()) {
    const TensorView& tensor = *source.find(name);
    PAGODA_RETURN_IF_ERROR(source.bring_in(tensor, &pool));
    const std::span bytes = stored_bytes(tensor);
    chunks.resize((bytes.size() + kChunk - 1) / kChunk);
    pool.parallel_for(static_cast<std::int64_t>(chunks.size()), [&](std::int64_t chunk, int) {
      const auto at = static_cast<std::size_t>(chunk) * kChunk;
      chunks[static_cast<std::size_t>(chunk)] =
          digest_of("chunk", bytes.subspan(at, std::min(kChunk, bytes.size() - at)));
    });
    source.give_back(tensor);
    all.add(description_of(name, tensor), std::as_bytes(std::span(chunks)));
  }
  if (!source.unchanged()) return corrupt_data("the model's files were changed while they were read");
  return all.finish();
}

Result<KvDigest> weights_sample(const ModelSource& source) {
  constexpr std::size_t kMaxSampled = 256;
  const std::vector<std::string> names = source.tensor_names();
  const std::size_t stride = names.size() / kMaxSampled + 1;
  Fingerprint all;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const TensorView& tensor = *source.find(names[i]);
    const std::string described = description_of(names[i], tensor);
    if (i % stride != 0 || tensor.bytes() == 0) {
      all.add(described, "");
      continue;
    }
    const std::int64_t columns = tensor.shape.empty() ? 1 : tensor.shape.back();
    const std::int64_t middle = tensor.elements() / columns / 2;  // a one-dimensional tensor is a single row
    const TensorView row = {
        tensor.dtype, {1, columns}, tensor.data + middle * dtype_bytes(tensor.dtype, columns)};
    PAGODA_RETURN_IF_ERROR(source.bring_in(row));
    all.add(described, stored_bytes(row));
    source.give_back(row);
  }
  return all.finish();
}

Result<KvDigest> cached_weights_digest(const ModelSource& source, const std::string& folder,
                                       ThreadPool& pool) {
  const std::string identity = source.identity();
  if (identity.empty() || !make_private_folder(folder, OthersMay::read).ok())
    return weights_digest(source, pool);
  const std::string key = hex(digest_of_text(identity));
  const std::string path = concat(folder, "/", key);
  constexpr std::size_t kDigits = 64;
  if (const auto text = read_text_file(path, 4096);
      text && text->size() == kHead.size() + kDigits && text->starts_with(kHead))
    if (const auto digest = digest_of_hex(std::string_view(*text).substr(kHead.size()))) return *digest;
  auto digest = weights_digest(source, pool);
  if (digest) keep(path, concat(kHead, hex(*digest)));
  return digest;
}

}  // namespace pagoda
