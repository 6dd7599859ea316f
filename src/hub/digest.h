#pragma once
// file_digest(): the hash of a file's bytes, read once from start to end.
// Errors: internal if the file cannot be read. Threads: any.
// Source: FIPS 180-4 (computed by OpenSSL); git's object format for blobs ("blob SIZE\0" before the bytes).
#include <string>

#include "base/status.h"

namespace pagoda {

enum class DigestKind {
  sha256,         // large files on the hub (LFS)
  git_blob_sha1,  // files in git itself
};

// Returns lowercase hexadecimal digits.
Result<std::string> file_digest(const std::string& path, DigestKind kind);

}  // namespace pagoda
