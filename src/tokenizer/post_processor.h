#pragma once
// PostProcessor: the special tokens that add_special_tokens puts around one encoded text, or around and
// between two.
#include <span>
#include <vector>

#include "request/ids.h"

namespace pagoda {

class PostProcessor {
 public:
  struct Wrap {
    std::vector<TokenId> before, after;
  };
  struct PairWrap {
    std::vector<TokenId> before, between, after;
    // Index in `between` of the first token of type 1; its size if type 1 begins with the second text.
    std::size_t second = 0;
    bool typed = false;  // true if any token has type 1
  };
  void add(Wrap wrap) { wraps_.push_back(std::move(wrap)); }  // in order from inner to outer
  void add_pair(PairWrap wrap) { pair_wraps_.push_back(std::move(wrap)); }
  void clear() {
    wraps_.clear();
    pair_wraps_.clear();
  }

  void apply(std::vector<TokenId>& ids) const {
    for (const Wrap& wrap : wraps_) {
      ids.insert(ids.begin(), wrap.before.begin(), wrap.before.end());
      ids.insert(ids.end(), wrap.after.begin(), wrap.after.end());
    }
  }

  // Replaces `first` by the encoded pair. Returns the index of the first token of type 1, or 0 if there is
  // none.
  std::size_t apply_pair(std::vector<TokenId>& first, std::vector<TokenId> second) const {
    std::size_t begin = 0;
    for (const PairWrap& wrap : pair_wraps_) {
      first.insert(first.begin(), wrap.before.begin(), wrap.before.end());
      begin = wrap.typed ? first.size() + wrap.second : 0;
      first.insert(first.end(), wrap.between.begin(), wrap.between.end());
      second.insert(second.end(), wrap.after.begin(), wrap.after.end());
    }
    first.insert(first.end(), second.begin(), second.end());
    return begin;
  }

 private:
  std::vector<Wrap> wraps_;
  std::vector<PairWrap> pair_wraps_;
};

}  // namespace pagoda
