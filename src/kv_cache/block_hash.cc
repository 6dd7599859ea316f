#include "kv_cache/block_hash.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace pagoda {

struct BlockHasher::Context {
  // Fetched once: the lookup costs more than the hash.
  EVP_MD* sha256 = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  EVP_MD_CTX* digest = EVP_MD_CTX_new();

  ~Context() {
    EVP_MD_CTX_free(digest);
    EVP_MD_free(sha256);
  }
  void add(const void* data, std::size_t bytes) { CHECK(EVP_DigestUpdate(digest, data, bytes) == 1); }
  void begin() { CHECK(EVP_DigestInit_ex2(digest, sha256, nullptr) == 1); }
  BlockHash finish() {
    BlockHash out;
    unsigned length = 0;
    CHECK(EVP_DigestFinal_ex(digest, reinterpret_cast<unsigned char*>(out.words.data()), &length) == 1);
    CHECK(length == sizeof out.words);
    return out;
  }
};

BlockHasher::BlockHasher(std::string_view model_id) : context_(std::make_unique<Context>()) {
  CHECK(context_->sha256 != nullptr && context_->digest != nullptr);
  context_->begin();
  context_->add(model_id.data(), model_id.size());
  model_ = context_->finish();
}

BlockHasher::~BlockHasher() = default;

BlockHash BlockHasher::root(std::string_view salt) {
  context_->begin();
  context_->add(model_.words.data(), sizeof model_.words);
  context_->add("salt", 4);  // ensures that a root never equals a block's hash, whatever the salt
  context_->add(salt.data(), salt.size());
  return context_->finish();
}

BlockHash BlockHasher::next(const BlockHash& parent, std::span<const TokenId> tokens) {
  context_->begin();
  context_->add(parent.words.data(), sizeof parent.words);
  context_->add("tokn", 4);
  context_->add(tokens.data(), tokens.size_bytes());
  return context_->finish();
}

}  // namespace pagoda
