#pragma once
// PostProcessor: what add_special_tokens puts around one encoded text, or around and between two.
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
    std::size_t second = 0;  // first token of type 1 in `between`; its size: the second text begins them
    bool typed = false;      // whether anything has type 1
  };
  void add(Wrap wrap) { wraps_.push_back(std::move(wrap)); }  // inner ones first
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

  // `first` becomes both; gives where type 1 begins, 0: nowhere.
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
