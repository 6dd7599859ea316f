#pragma once
// SharedMask: an immutable mask of a position in a rule, shared by many grammars. XGrammar keeps a copy in
// each grammar, which is most of a grammar's bytes and much of the cost of compiling; cmake/xgrammar.cmake
// replaces the copies by this class. Included by XGrammar's compiled_grammar_impl.h after AdaptiveTokenMask.
// Units: bytes. Threads: any. Source: none.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "work.h"

namespace pagoda {

class SharedMask {
 public:
  using Mask = xgrammar::AdaptiveTokenMask;

  SharedMask() = default;
  SharedMask(Mask mask) : kept_(std::make_shared<const Kept>(std::move(mask))) {}

  // Units of work.h that computing the mask took.
  std::int64_t work() const { return kept_ == nullptr ? 0 : kept_->work; }
  // Call when this thread begins to compute a mask.
  static void begin() { began() = work_done(); }

  operator const Mask&() const { return kept_ == nullptr ? none() : kept_->mask; }

  friend std::size_t MemorySize(const SharedMask& mask) { return MemorySize(static_cast<const Mask&>(mask)); }

  // Bytes of all masks that are referenced.
  static std::int64_t live_bytes() { return live(); }

 private:
  struct Kept {
    explicit Kept(Mask from)
        : mask(std::move(from)),
          bytes(static_cast<std::int64_t>(MemorySize(mask))),
          work(work_done() - began()) {
      live() += bytes;
    }
    ~Kept() { live() -= bytes; }
    Kept(const Kept&) = delete;
    const Mask mask;
    const std::int64_t bytes, work;
  };
  static std::int64_t& began() {
    static thread_local std::int64_t work = 0;
    return work;
  }
  static const Mask& none() {
    static const Mask empty{};
    return empty;
  }
  static std::atomic<std::int64_t>& live() {
    static std::atomic<std::int64_t> bytes{0};
    return bytes;
  }

  std::shared_ptr<const Kept> kept_;
};

// Needed to compile XGrammar's serialisation of grammars as JSON, which Pagoda does not use.
picojson::value SerializeJSONValue(const SharedMask& mask);
std::optional<xgrammar::SerializationError> DeserializeJSONValue(SharedMask* mask,
                                                                 const picojson::value& value,
                                                                 const std::string& type_name);

}  // namespace pagoda
