#include "hub/digest.h"

#include <openssl/evp.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "base/strings.h"

namespace pagoda {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;

struct Free {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

}  // namespace

Result<std::string> file_digest(const std::string& path, DigestKind kind) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return internal_error(concat("cannot read ", path));
  const std::unique_ptr<EVP_MD_CTX, Free> context(EVP_MD_CTX_new());
  CHECK(context != nullptr);
  CHECK(EVP_DigestInit_ex(context.get(), kind == DigestKind::sha256 ? EVP_sha256() : EVP_sha1(), nullptr) ==
        1);
  if (kind == DigestKind::git_blob_sha1) {
    const std::string head = concat("blob ", size);
    CHECK(EVP_DigestUpdate(context.get(), head.c_str(), head.size() + 1) == 1);
  }
  std::vector<char> piece(kPiece);
  while (file) {
    file.read(piece.data(), static_cast<std::streamsize>(piece.size()));
    CHECK(EVP_DigestUpdate(context.get(), piece.data(), static_cast<std::size_t>(file.gcount())) == 1);
  }
  if (file.bad()) return internal_error(concat("cannot read ", path));
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  CHECK(EVP_DigestFinal_ex(context.get(), bytes, &length) == 1);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (unsigned i = 0; i < length; ++i) {
    out += kHex[bytes[i] >> 4];
    out += kHex[bytes[i] & 15];
  }
  return out;
}

}  // namespace pagoda
