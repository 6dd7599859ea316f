#pragma once
// file_digest(): what a file's bytes hash to, read once from begin to end.
// Errors: internal where the file cannot be read. Threads: any.
// Source: FIPS 180-4 (OpenSSL computes it); git's object format for blobs ("blob SIZE\0" before the bytes).
#include <string>

#include "base/status.h"

namespace pagoda {

enum class DigestKind {
  sha256,         // large files on the hub (LFS)
  git_blob_sha1,  // files in git itself
};

// In small hexadecimal digits.
Result<std::string> file_digest(const std::string& path, DigestKind kind);

}  // namespace pagoda
